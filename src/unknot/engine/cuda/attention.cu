// Causal attention of short texts in half precision (bfloat16), with rotated queries and keys.
//
// A block has one text and one head of keys and values, and takes the GROUP heads of queries that share it one
// after the other. All of a text (at most ROWS tokens) is there at once: a warp has sixteen rows of the scores,
// whole, and every sum has one order that depends on the sizes alone. Backward computes the shares again.
//
// `attention.py` puts the sizes (LENGTH, WIDTH, HEADS, FEWER) in front of this text, after `bfloat16.cuh`, and
// hands on the scale by its bits.

constexpr int ROWS = 64, WARPS = 4, THREADS = 32 * WARPS, GROUP = HEADS / FEWER;
constexpr int LINE = WIDTH + 8;  // of a tile in shared memory: eight more, so that rows begin in other banks
constexpr int SHARES = ROWS + 8;
constexpr int TILES = WIDTH / 8;

typedef float Scores[ROWS / 8][4];  // sixteen rows by all tokens, as the products leave them
typedef float Numbers[TILES][4];    // sixteen rows by the numbers of a head

__device__ __forceinline__ void multiply(float* sum, const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four tiles of eight by eight; a lane names the row of one, and gets two numbers of each (or of its mirror).
__device__ __forceinline__ void tiles(unsigned* to, const half_t* at) {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(place));
}
__device__ __forceinline__ void mirrored(unsigned* to, const half_t* at) {
    const unsigned place = static_cast<unsigned>(__cvta_generic_to_shared(at));
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(place));
}

__device__ __forceinline__ unsigned two(float first, float second) {
    return static_cast<unsigned>(narrow(first)) | static_cast<unsigned>(narrow(second)) << 16;
}

__device__ __forceinline__ float sum_of_four(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}
__device__ __forceinline__ float most_of_four(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}

// One head of a text into shared memory, turned by the angles of the positions or as it is; zeros after its end.
template <bool TURNED>
__device__ __forceinline__ void fetch(half_t* to, const half_t* from, int heads, const float* cosines,
                                      const float* sines) {
    constexpr int HALF = WIDTH / 2, RUNS = HALF / 8;
    for (int i = threadIdx.x; i < ROWS * RUNS; i += THREADS) {
        const int row = i / RUNS, place = i % RUNS * 8;
        Eight a = {}, b = {};
        if (row < LENGTH) {
            a = load(from + row * heads * WIDTH + place);
            b = load(from + row * heads * WIDTH + place + HALF);
            if (TURNED) {
#pragma unroll
                for (int j = 0; j < 8; j++) {
                    const float c = cosines[row * HALF + place + j], s = sines[row * HALF + place + j];
                    const float u = wide(a.v[j]), v = wide(b.v[j]);
                    a.v[j] = narrow(u * c - v * s);
                    b.v[j] = narrow(v * c + u * s);
                }
            }
        }
        store(to + row * LINE + place, a);
        store(to + row * LINE + place + HALF, b);
    }
}

// This warp's rows of `left` times all rows of `right` that they may see.
__device__ __forceinline__ void compare(Scores& out, const half_t* left, const half_t* right, int warp, int lane) {
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0.0f;
    const int part = lane / 8;
#pragma unroll
    for (int k = 0; k < WIDTH; k += 16) {
        unsigned a[4], b[4];
        tiles(a, left + (warp * 16 + lane % 16) * LINE + k + lane / 16 * 8);
#pragma unroll
        for (int n = 0; n < ROWS; n += 16) {
            if (n > warp * 16) continue;
            tiles(b, right + (n + lane % 8 + part / 2 * 8) * LINE + k + part % 2 * 8);
            multiply(out[n / 8], a, b);
            multiply(out[n / 8 + 1], a, b + 2);
        }
    }
}

// Scores to shares: a row's sum is one, and a token sees itself and those before it.
__device__ __forceinline__ void share(Scores& s, int warp, int lane, float scale) {
    const int first = warp * 16 + lane / 4, column = lane % 4 * 2;
    float most[2] = {-__int_as_float(0x7f800000), -__int_as_float(0x7f800000)}, total[2] = {0.0f, 0.0f};
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool seen = j * 8 + column + e % 2 <= first + e / 2 * 8;
            s[j][e] = seen ? s[j][e] * scale : -__int_as_float(0x7f800000);
            most[e / 2] = fmaxf(most[e / 2], s[j][e]);
        }
    most[0] = most_of_four(most[0]);
    most[1] = most_of_four(most[1]);
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const bool seen = j * 8 + column + e % 2 <= first + e / 2 * 8;
            s[j][e] = seen ? expf(s[j][e] - most[e / 2]) : 0.0f;
            total[e / 2] += s[j][e];
        }
    total[0] = sum_of_four(total[0]);
    total[1] = sum_of_four(total[1]);
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) s[j][e] /= total[e / 2];
}

// This warp's rows of shares (or of their errors) times the rows of `right` that they see.
__device__ __forceinline__ void mix(Numbers& out, const Scores& s, const half_t* right, int warp, int lane) {
#pragma unroll
    for (int j = 0; j < TILES; j++) out[j][0] = out[j][1] = out[j][2] = out[j][3] = 0.0f;
    const int part = lane / 8;
#pragma unroll
    for (int k = 0; k < ROWS; k += 16) {
        if (k > warp * 16) continue;
        const float *low = s[k / 8], *high = s[k / 8 + 1];
        const unsigned a[4] = {two(low[0], low[1]), two(low[2], low[3]), two(high[0], high[1]), two(high[2], high[3])};
        unsigned b[4];
#pragma unroll
        for (int n = 0; n < WIDTH; n += 16) {
            mirrored(b, right + (k + lane % 8 + part % 2 * 8) * LINE + n + part / 2 * 8);
            multiply(out[n / 8], a, b);
            multiply(out[n / 8 + 1], a, b + 2);
        }
    }
}

// The warp's sixteen tokens as keys: adds what all queries that see them give to `right`'s rows.
__device__ __forceinline__ void gather(Numbers& out, const half_t* shares, const half_t* right, int warp, int lane) {
    const int part = lane / 8;
#pragma unroll
    for (int k = 0; k < ROWS; k += 16) {
        if (k < warp * 16) continue;
        unsigned a[4], b[4];
        mirrored(a, shares + (k + lane % 8 + part / 2 * 8) * SHARES + warp * 16 + part % 2 * 8);
#pragma unroll
        for (int n = 0; n < WIDTH; n += 16) {
            mirrored(b, right + (k + lane % 8 + part % 2 * 8) * LINE + n + part / 2 * 8);
            multiply(out[n / 8], a, b);
            multiply(out[n / 8 + 1], a, b + 2);
        }
    }
}

__device__ __forceinline__ void keep(half_t* to, const Scores& s, int warp, int lane) {
    const int first = warp * 16 + lane / 4, column = lane % 4 * 2;
#pragma unroll
    for (int j = 0; j < ROWS / 8; j++) {
        if (j * 8 > warp * 16 + 8) continue;
        *reinterpret_cast<unsigned*>(to + first * SHARES + j * 8 + column) = two(s[j][0], s[j][1]);
        *reinterpret_cast<unsigned*>(to + (first + 8) * SHARES + j * 8 + column) = two(s[j][2], s[j][3]);
    }
}

// One head of the warp's tokens to its place in memory; turned back where it had been turned.
template <bool TURNED>
__device__ __forceinline__ void put(half_t* to, int heads, Numbers& x, const float* cosines, const float* sines,
                                    int warp, int lane) {
    constexpr int HALF = WIDTH / 2;
    const int column = lane % 4 * 2;
#pragma unroll
    for (int side = 0; side < 2; side++) {
        const int row = warp * 16 + lane / 4 + side * 8;
        if (row >= LENGTH) continue;
        if (TURNED) {
#pragma unroll
            for (int j = 0; j < TILES / 2; j++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    const int angle = row * HALF + j * 8 + column + e;
                    const float c = cosines[angle], s = sines[angle];
                    const float u = x[j][side * 2 + e], v = x[j + TILES / 2][side * 2 + e];
                    x[j][side * 2 + e] = u * c + v * s;
                    x[j + TILES / 2][side * 2 + e] = v * c - u * s;
                }
        }
#pragma unroll
        for (int j = 0; j < TILES; j++)
            *reinterpret_cast<unsigned*>(to + row * heads * WIDTH + j * 8 + column) =
                two(x[j][side * 2], x[j][side * 2 + 1]);
    }
}

#if defined(ATTEND)
extern "C" __global__ void __launch_bounds__(THREADS)
    attend(const half_t* q, const half_t* k, const half_t* v, const float* cosines, const float* sines, half_t* out,
           int scale) {
    __shared__ alignas(16) half_t queries[ROWS * LINE], keys[ROWS * LINE], values[ROWS * LINE];
    const int text = blockIdx.x / FEWER, shared = blockIdx.x % FEWER, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long many = static_cast<long long>(text) * LENGTH * HEADS * WIDTH;
    const long long few = (static_cast<long long>(text) * LENGTH * FEWER + shared) * WIDTH;
    fetch<true>(keys, k + few, FEWER, cosines, sines);
    fetch<false>(values, v + few, FEWER, cosines, sines);
    for (int head = shared * GROUP; head < (shared + 1) * GROUP; head++) {
        __syncthreads();
        fetch<true>(queries, q + many + head * WIDTH, HEADS, cosines, sines);
        __syncthreads();
        Scores shares;
        Numbers mixed;
        compare(shares, queries, keys, warp, lane);
        share(shares, warp, lane, __int_as_float(scale));
        mix(mixed, shares, values, warp, lane);
        put<false>(out + many + head * WIDTH, HEADS, mixed, cosines, sines, warp, lane);
    }
}
#endif

#if defined(ATTEND_BACKWARD)
extern "C" __global__ void __launch_bounds__(THREADS)
    attend_backward(const half_t* error, const half_t* q, const half_t* k, const half_t* v, const float* cosines,
                    const float* sines, half_t* of_q, half_t* of_k, half_t* of_v, int scale) {
    __shared__ alignas(16) half_t queries[ROWS * LINE], keys[ROWS * LINE], values[ROWS * LINE], errors[ROWS * LINE];
    __shared__ alignas(16) half_t kept[ROWS * SHARES];
    const int text = blockIdx.x / FEWER, shared = blockIdx.x % FEWER, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long many = static_cast<long long>(text) * LENGTH * HEADS * WIDTH;
    const long long few = (static_cast<long long>(text) * LENGTH * FEWER + shared) * WIDTH;
    fetch<true>(keys, k + few, FEWER, cosines, sines);
    fetch<false>(values, v + few, FEWER, cosines, sines);
    Numbers at_keys = {}, at_values = {};
    for (int head = shared * GROUP; head < (shared + 1) * GROUP; head++) {
        __syncthreads();
        fetch<true>(queries, q + many + head * WIDTH, HEADS, cosines, sines);
        fetch<false>(errors, error + many + head * WIDTH, HEADS, cosines, sines);
        __syncthreads();
        Scores shares, pulled;
        compare(shares, queries, keys, warp, lane);
        share(shares, warp, lane, __int_as_float(scale));
        compare(pulled, errors, values, warp, lane);
        float along[2] = {0.0f, 0.0f};
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) along[e / 2] += shares[j][e] * pulled[j][e];
        along[0] = sum_of_four(along[0]);
        along[1] = sum_of_four(along[1]);
        keep(kept, shares, warp, lane);
        __syncthreads();
        gather(at_values, kept, errors, warp, lane);
#pragma unroll
        for (int j = 0; j < ROWS / 8; j++)
#pragma unroll
            for (int e = 0; e < 4; e++) pulled[j][e] = shares[j][e] * (pulled[j][e] - along[e / 2]) * __int_as_float(scale);
        __syncthreads();
        keep(kept, pulled, warp, lane);
        __syncthreads();
        gather(at_keys, kept, queries, warp, lane);
        Numbers at_queries;
        mix(at_queries, pulled, keys, warp, lane);
        put<true>(of_q + many + head * WIDTH, HEADS, at_queries, cosines, sines, warp, lane);
    }
    put<true>(of_k + few, FEWER, at_keys, cosines, sines, warp, lane);
    put<false>(of_v + few, FEWER, at_values, cosines, sines, warp, lane);
}
#endif
