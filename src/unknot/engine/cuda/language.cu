// What a language model does to its numbers between the products, in half precision (bfloat16).
//
// A token's numbers lie in one run of memory; a warp or a thread works for one token or one run of eight
// numbers, and every sum has one order: the bits of a token depend on nothing but its own numbers. Sums and
// functions are computed in single precision, and rounded once.
//
// `language.py` puts the sizes in front of this text, after `bfloat16.cuh`, and asks for one of the kernels.
// Numbers that are not whole come by their bits.

__device__ __forceinline__ float sum_of_warp(float x) {
#pragma unroll
    for (int far = 16; far; far /= 2) x += __shfl_xor_sync(0xffffffffu, x, far);
    return x;
}

__device__ __forceinline__ float sigmoid(float x) { return 1.0f / (1.0f + expf(-x)); }

#if defined(RMS_FORWARD)
// out = x / rms(x) * weight, one warp a token of WIDTH numbers; `scales` keeps 1 / rms.
extern "C" __global__ void rms_forward(const half_t* x, const half_t* weight, half_t* out, float* scales, int tokens,
                                       int eps) {
    const int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const half_t* mine = x + static_cast<long long>(token) * WIDTH;
    constexpr int RUNS = (WIDTH / 8 + 31) / 32;
    Eight kept[RUNS];
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const int at = (i * 32 + lane) * 8;
        if (at >= WIDTH) continue;
        kept[i] = load(mine + at);
#pragma unroll
        for (int j = 0; j < 8; j++) total += wide(kept[i].v[j]) * wide(kept[i].v[j]);
    }
    const float scale = rsqrtf(sum_of_warp(total) / WIDTH + __int_as_float(eps));
    if (lane == 0) scales[token] = scale;
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const int at = (i * 32 + lane) * 8;
        if (at >= WIDTH) continue;
        const Eight each = load(weight + at);
        Eight made;
#pragma unroll
        for (int j = 0; j < 8; j++) made.v[j] = narrow(wide(kept[i].v[j]) * scale * wide(each.v[j]));
        store(out + static_cast<long long>(token) * WIDTH + at, made);
    }
}
#endif

#if defined(RMS_BACKWARD)
// The error of x from that of out.
extern "C" __global__ void rms_backward(const half_t* error, const half_t* x, const half_t* weight, const float* scales,
                                        half_t* out, int tokens) {
    const int token = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (token >= tokens) return;
    const long long first = static_cast<long long>(token) * WIDTH;
    constexpr int RUNS = (WIDTH / 8 + 31) / 32;
    float pulled[RUNS * 8], given[RUNS * 8];
    float total = 0.0f;
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const int at = (i * 32 + lane) * 8;
        if (at >= WIDTH) continue;
        const Eight e = load(error + first + at), w = load(weight + at), v = load(x + first + at);
#pragma unroll
        for (int j = 0; j < 8; j++) {
            pulled[i * 8 + j] = wide(e.v[j]) * wide(w.v[j]);
            given[i * 8 + j] = wide(v.v[j]);
            total += pulled[i * 8 + j] * given[i * 8 + j];
        }
    }
    const float scale = scales[token];
    const float along = sum_of_warp(total) * scale * scale * scale / WIDTH;
#pragma unroll
    for (int i = 0; i < RUNS; i++) {
        const int at = (i * 32 + lane) * 8;
        if (at >= WIDTH) continue;
        Eight made;
#pragma unroll
        for (int j = 0; j < 8; j++) made.v[j] = narrow(pulled[i * 8 + j] * scale - given[i * 8 + j] * along);
        store(out + first + at, made);
    }
}
#endif

#if defined(ROTATE)
// Heads of WIDTH numbers, HEADS of them a token, LENGTH tokens a text, each turned by the angles of its
// position, or back (sign -1). One thread has eight pairs.
extern "C" __global__ void rotate(const half_t* x, const float* cosines, const float* sines, half_t* out, int runs,
                                  int sign) {
    constexpr int HALF = WIDTH / 2, RUNS = HALF / 8;
    const int run = blockIdx.x * blockDim.x + threadIdx.x;
    if (run >= runs) return;
    const int place = run % RUNS * 8, head = run / RUNS, position = head / HEADS % LENGTH;
    const long long first = static_cast<long long>(head) * WIDTH + place;
    const Eight a = load(x + first), b = load(x + first + HALF);
    Eight made, other;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float c = cosines[position * HALF + place + j], s = __int_as_float(sign) * sines[position * HALF + place + j];
        const float u = wide(a.v[j]), v = wide(b.v[j]);
        made.v[j] = narrow(u * c - v * s);
        other.v[j] = narrow(v * c + u * s);
    }
    store(out + first, made);
    store(out + first + HALF, other);
}
#endif

#if defined(GATE_FORWARD)
// out = silu(gate) * up; one thread has eight numbers.
extern "C" __global__ void gate_forward(const half_t* gate, const half_t* up, half_t* out, int runs) {
    const int run = blockIdx.x * blockDim.x + threadIdx.x;
    if (run >= runs) return;
    const long long at = static_cast<long long>(run) * 8;
    const Eight g = load(gate + at), u = load(up + at);
    Eight made;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float x = wide(g.v[j]);
        made.v[j] = narrow(x * sigmoid(x) * wide(u.v[j]));
    }
    store(out + at, made);
}
#endif

#if defined(GATE_BACKWARD)
extern "C" __global__ void gate_backward(const half_t* error, const half_t* gate, const half_t* up, half_t* of_gate,
                                         half_t* of_up, int runs) {
    const int run = blockIdx.x * blockDim.x + threadIdx.x;
    if (run >= runs) return;
    const long long at = static_cast<long long>(run) * 8;
    const Eight e = load(error + at), g = load(gate + at), u = load(up + at);
    Eight first, second;
#pragma unroll
    for (int j = 0; j < 8; j++) {
        const float x = wide(g.v[j]), s = sigmoid(x), pull = wide(e.v[j]);
        first.v[j] = narrow(pull * wide(u.v[j]) * s * (1.0f + x * (1.0f - s)));
        second.v[j] = narrow(pull * x * s);
    }
    store(of_gate + at, first);
    store(of_up + at, second);
}
#endif
