// Linear layers of many small models at once, and the step of plain SGD.
//
// Row r is model r: it has its own weights [OUT, IN], its own bias [OUT] and its own batch of values
// [BATCH, IN]. A block works for one row, and every sum has one order that depends on the sizes alone: the
// bits of a row depend on nothing but its inputs. There are no atomics and no sums over blocks.
//
// `linear.py` puts the sizes in front of this text as constants and asks for one of four kernels: FORWARD,
// HEAD (the losses and the errors of the logits), LAST (both in one, where a block has all logits of a
// sample) and BACKWARD (the errors below, and the step).

#ifndef LINKAGE
#define LINKAGE extern "C"
#endif

constexpr int V = 16 / sizeof(T);  // numbers that one load takes

struct alignas(16) Pack {
    T v[V];
};
template <int N>
struct alignas(N * sizeof(T)) Unit {
    T v[N];
};

__host__ __device__ constexpr int parts(int n, int unit) { return (n + unit - 1) / unit; }
__host__ __device__ constexpr int least(int a, int b) { return a < b ? a : b; }
// How many numbers of a line can be taken at once, if lines of this width follow one another.
__host__ __device__ constexpr int unit_of(int width) { return width % V == 0 ? V : width % 2 == 0 ? 2 : 1; }

__device__ __forceinline__ Pack load(const T* at) { return *reinterpret_cast<const Pack*>(at); }

// Begins to copy N numbers to shared memory, or zeros if they are not `there`: see `commit` and `arrived`.
template <int N>
__device__ __forceinline__ void copy(T* to, const T* from, bool there) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    constexpr int BYTES = N * sizeof(T);
    const unsigned at = static_cast<unsigned>(__cvta_generic_to_shared(to));
    const int bytes = there ? BYTES : 0;
    if (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(at), "l"(from), "n"(BYTES), "r"(bytes)
                     : "memory");
#else
    Unit<N> unit = {};
    if (there) unit = *reinterpret_cast<const Unit<N>*>(from);
    *reinterpret_cast<Unit<N>*>(to) = unit;
#endif
}

__device__ __forceinline__ void commit() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all but the last `LEFT` commits of this thread have arrived.
template <int LEFT>
__device__ __forceinline__ void arrived() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
#endif
}

#if defined(HEAD) || defined(LAST)
// LANES threads have a sample: its loss, minus the log of its target's probability, and its error, the
// probabilities less one for the target, times its weight. All threads of a warp must come by.
static_assert((LANES & (LANES - 1)) == 0 && LANES <= 32, "a warp has a whole number of samples");

__device__ __forceinline__ void judge(const T* logits, long long target, T times, T* loss, T* error, bool active) {
    const int lane = threadIdx.x % LANES;
    T most = logits[0], sum = 0;
    for (int c = lane; c < OUT; c += LANES) most = logits[c] > most ? logits[c] : most;
#pragma unroll
    for (int far = LANES / 2; far > 0; far /= 2) {
        const T other = __shfl_xor_sync(0xffffffffu, most, far);
        most = other > most ? other : most;
    }
    for (int c = lane; c < OUT; c += LANES) sum += exp(logits[c] - most);
#pragma unroll
    for (int far = LANES / 2; far > 0; far /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, far);
    if (!active) return;
    const T whole = log(sum);
    for (int c = lane; c < OUT; c += LANES) {
        const T logarithm = logits[c] - most - whole;
        error[c] = (exp(logarithm) - (c == target ? T(1) : T(0))) * times;
        if (c == target) *loss = -logarithm;
    }
}
#endif

#if defined(HEAD)
constexpr int SAMPLES = THREADS / LANES, GROUPS = parts(BATCH, SAMPLES);

LINKAGE __global__ void __launch_bounds__(THREADS)
    head(const T* __restrict__ logits, const long long* __restrict__ reads, const long long* __restrict__ targets,
         const T* __restrict__ weights, T* __restrict__ losses, T* __restrict__ error) {
    const int row = blockIdx.x / GROUPS, b = blockIdx.x % GROUPS * SAMPLES + threadIdx.x / LANES;
    const bool active = b < BATCH;
    const long long at = (long long)row * BATCH + (active ? b : 0);
    judge(logits + at * OUT, targets[reads[at]], weights[at], losses + at, error + at * OUT, active);
}
#endif

#if defined(FORWARD) || defined(LAST)
// A thread has TO outputs of TB samples: every OT-th and every BT-th of those of its block, which takes KT
// inputs at a time, STAGES - 1 times ahead. A sum is made by one thread, in the order of the inputs.
constexpr int BB = BT * TB, OO = OT * TO, GROUPS = parts(BATCH, BB), PARTS = parts(OUT, OO), TILES = parts(IN, KT);
constexpr int LINE = KT + V;  // an odd number of packs: neighbours read from different banks
constexpr int UNIT = unit_of(IN), UNITS = KT / UNIT, STEP = THREADS / UNITS;
constexpr int STAGE = (BB + OO) * LINE;
static_assert(KT / V % 2 == 0 && THREADS % UNITS == 0, "lines of KT inputs cannot be shared out");
static_assert(BT * OT <= THREADS && STAGES >= 2, "too few threads or stages");

__device__ __forceinline__ void fill(T* stage, const T* __restrict__ x, const long long* starts,
                                     const T* __restrict__ weight, int part, int k0) {
    const int column = threadIdx.x % UNITS * UNIT, first = threadIdx.x / UNITS;
    const bool there = k0 + column < IN;
    x += k0 + column, weight += ((long long)part * OO + first) * IN + k0 + column;
    stage += first * LINE + column;
#pragma unroll 8
    for (int j = 0; j < parts(BB, STEP); j++) {
        const int n = first + j * STEP;
        if (n < BB && starts[n] >= 0) copy<UNIT>(stage + j * STEP * LINE, x + (there ? starts[n] : 0), there);
    }
#pragma unroll 8
    for (int j = 0; j < parts(OO, STEP); j++) {
        const int o = first + j * STEP;
        if (o < OO && part * OO + o < OUT) copy<UNIT>(stage + (BB + j * STEP) * LINE, weight + j * STEP * IN, there);
    }
}

struct Place {
    int row, group, part, ot, bt;
};

__device__ __forceinline__ Place place_of_thread() {
    const int block = blockIdx.x, thread = threadIdx.x;
    return {block / (PARTS * GROUPS), block / PARTS % GROUPS, block % PARTS, thread % OT, thread / OT};
}

__device__ __forceinline__ void multiply(T (&acc)[TO][TB], T* space, const Place& at, const T* __restrict__ x,
                                         const long long* __restrict__ reads, const T* __restrict__ weight) {
    __shared__ long long starts[BB];  // where samples begin; -1 where there is none
    weight += (long long)at.row * OUT * IN;
    for (int n = threadIdx.x; n < BB; n += THREADS) {
        const long long sample = (long long)at.row * BATCH + at.group * BB + n;
        starts[n] = at.group * BB + n >= BATCH ? -1 : (GATHER ? reads[sample] : sample) * IN;
    }
    __syncthreads();
#pragma unroll
    for (int t = 0; t < STAGES - 1; t++) {
        if (t < TILES) fill(space + t * STAGE, x, starts, weight, at.part, t * KT);
        commit();
    }
#pragma unroll 1
    for (int t = 0; t < TILES; t++) {
        arrived<STAGES - 2>();
        __syncthreads();
        const int ahead = t + STAGES - 1;
        if (ahead < TILES) fill(space + ahead % STAGES * STAGE, x, starts, weight, at.part, ahead * KT);
        commit();
        if (at.bt >= BT) continue;
        const T* xs = space + t % STAGES * STAGE + at.bt * LINE;
        const T* ws = space + t % STAGES * STAGE + (BB + at.ot) * LINE;
        const int packs = parts(least(KT, IN - t * KT), V);
#pragma unroll 1
        for (int k = 0; k < packs; k++) {
            Pack a[TB], w[TO];
#pragma unroll
            for (int b = 0; b < TB; b++) a[b] = load(xs + b * BT * LINE + k * V);
#pragma unroll
            for (int o = 0; o < TO; o++) w[o] = load(ws + o * OT * LINE + k * V);
#pragma unroll
            for (int j = 0; j < V; j++) {
#pragma unroll
                for (int o = 0; o < TO; o++) {
#pragma unroll
                    for (int b = 0; b < TB; b++) acc[o][b] += w[o].v[j] * a[b].v[j];
                }
            }
        }
    }
}

// Adds the bias, applies the activation and puts results [BB][OUT] where they belong.
__device__ __forceinline__ void finish(const T (&acc)[TO][TB], const Place& at, const T* __restrict__ bias, T* out) {
    if (at.bt >= BT) return;
#pragma unroll
    for (int i = 0; i < TO; i++) {
        const int o = at.part * OO + i * OT + at.ot;
        if (o >= OUT) break;
        const T add = BIAS ? bias[(long long)at.row * OUT + o] : T(0);
#pragma unroll
        for (int n = 0; n < TB; n++) {
            const int b = n * BT + at.bt;
            if (at.group * BB + b >= BATCH) break;
            T v = acc[i][n] + add;
            if (RELU && v <= 0) v = 0;  // NaN stays
            if (TANH) v = tanh(v);
            out[b * OUT + o] = v;
        }
    }
}
#endif

#if defined(FORWARD)
LINKAGE __global__ void __launch_bounds__(THREADS)
    forward(const T* __restrict__ x, const long long* __restrict__ reads, const T* __restrict__ weight,
            const T* __restrict__ bias, T* __restrict__ out) {
    alignas(16) __shared__ T space[STAGES * STAGE];
    const Place at = place_of_thread();
    T acc[TO][TB] = {};
    multiply(acc, space, at, x, reads, weight);
    finish(acc, at, bias, out + ((long long)at.row * BATCH + at.group * BB) * OUT);
}
#endif

#if defined(LAST)
constexpr int SPACE = STAGES * STAGE > BB * OUT ? STAGES * STAGE : BB * OUT, SAMPLES = THREADS / LANES;
static_assert(PARTS == 1, "a block has not all logits of a sample");

LINKAGE __global__ void __launch_bounds__(THREADS)
    last(const T* __restrict__ x, const long long* __restrict__ reads, const T* __restrict__ weight,
         const T* __restrict__ bias, const long long* __restrict__ targets, const T* __restrict__ weights,
         T* __restrict__ losses, T* __restrict__ error) {
    alignas(16) __shared__ T space[SPACE];
    const Place at = place_of_thread();
    T acc[TO][TB] = {};
    multiply(acc, space, at, x, reads, weight);
    __syncthreads();
    finish(acc, at, bias, space);
    __syncthreads();
#pragma unroll 1
    for (int n0 = 0; n0 < BB; n0 += SAMPLES) {
        const int n = n0 + threadIdx.x / LANES, b = at.group * BB + n;
        const bool active = n < BB && b < BATCH;
        const long long sample = (long long)at.row * BATCH + (active ? b : 0);
        judge(space + (active ? n : 0) * OUT, targets[reads[sample]], weights[sample], losses + sample,
              error + sample * OUT, active);
    }
}
#endif

#if defined(BACKWARD)
// A block has IC inputs (IG packs) and goes through the outputs, OT at a time: a thread has one pack of OC of
// them for the step. If there is a BELOW, it has that pack of TB samples too (every GB-th): the block sees all
// outputs, so that these sums are made by one thread, in the order of the outputs. Gradients are sums over
// samples in their order. No other block reads or writes this block's weights.
constexpr int IG = IC / V, SLICES = parts(IN, IC), GO = OT / OC, GB = parts(BATCH, TB), TILES = parts(OUT, OT);
constexpr int ERRORS = (BELOW ? GB * TB : BATCH) * OT, WEIGHTS = BELOW ? OT * IC : 0, STAGE = ERRORS + WEIGHTS;
constexpr int UNIT = unit_of(IN), OUNIT = unit_of(OUT);
static_assert(IC % V == 0 && OC % V == 0 && OT % OC == 0, "packs are cut");
static_assert(IG * GO <= THREADS && (!BELOW || IG * GB <= THREADS), "too few threads");
static_assert(STAGES == 1 || STAGES == 2, "one or two stages");

__device__ __forceinline__ bool has_output(int o) { return OUT % OT == 0 || o < OUT; }
__device__ __forceinline__ bool has_input(int k) { return IN % IC == 0 || k < IN; }

__device__ __forceinline__ void fill(T* stage, const T* __restrict__ error, const T* weight, int slice, int o0) {
    for (int i = threadIdx.x; i < BATCH * (OT / OUNIT); i += THREADS) {
        const int b = i / (OT / OUNIT), o = i % (OT / OUNIT) * OUNIT;
        const bool there = has_output(o0 + o);
        copy<OUNIT>(stage + b * OT + o, error + b * OUT + (there ? o0 + o : 0), there);
    }
    if (BELOW) {
        for (int i = threadIdx.x; i < OT * (IC / UNIT); i += THREADS) {
            const int o = i / (IC / UNIT), k = i % (IC / UNIT) * UNIT;
            const bool there = has_output(o0 + o) && has_input(slice * IC + k);
            copy<UNIT>(stage + ERRORS + o * IC + k, weight + (there ? (o0 + o) * IN + slice * IC + k : 0), there);
        }
    }
}

__device__ __forceinline__ double double_of(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned)low);
}

LINKAGE __global__ void __launch_bounds__(THREADS)
    backward(const T* __restrict__ x, const long long* __restrict__ reads, const T* __restrict__ error, T* weight,
             T* __restrict__ bias, T* __restrict__ below, int keep_high, int keep_low, int rate_high, int rate_low) {
    alignas(16) __shared__ T xs[BATCH * IC];
    alignas(16) __shared__ T space[STAGES * STAGE];
    __shared__ long long which[GATHER ? BATCH : 1];
    const T keep = double_of(keep_high, keep_low), rate = double_of(rate_high, rate_low);
    const int slice = blockIdx.x % SLICES, row = blockIdx.x / SLICES;
    const int pack = threadIdx.x % IG, group = threadIdx.x / IG;
    error += (long long)row * BATCH * OUT, weight += (long long)row * OUT * IN;
    fill(space, error, weight, slice, 0);
    if (GATHER) {
        for (int b = threadIdx.x; b < BATCH; b += THREADS) which[b] = reads[(long long)row * BATCH + b];
        __syncthreads();
    }
#pragma unroll 4
    for (int i = threadIdx.x; i < BATCH * (IC / UNIT); i += THREADS) {
        const int b = i / (IC / UNIT), k = i % (IC / UNIT) * UNIT;
        const bool there = has_input(slice * IC + k);
        const long long sample = GATHER ? which[b] : (long long)row * BATCH + b;
        copy<UNIT>(xs + b * IC + k, x + sample * IN + (there ? slice * IC + k : 0), there);
    }
    commit();
    T acc[TB][V] = {};
#pragma unroll 1
    for (int t = 0; t < TILES; t++) {
        const T* es = space + t % STAGES * STAGE;
        const int o0 = t * OT;
        if (STAGES == 1 && t > 0) {
            __syncthreads();
            fill(space, error, weight, slice, o0);
            commit();
        }
        Unit<UNIT> w[OC][V / UNIT];
        if (!BELOW && group < GO) {  // they come while the gradient is summed up
#pragma unroll
            for (int i = 0; i < OC; i++) {
                const int o = o0 + group * OC + i;
#pragma unroll
                for (int j = 0; j < V / UNIT; j++) {
                    const int k = slice * IC + pack * V + j * UNIT;
                    if (has_output(o) && has_input(k)) w[i][j] = *reinterpret_cast<const Unit<UNIT>*>(weight + o * IN + k);
                }
            }
        }
        arrived<0>();
        __syncthreads();
        if (STAGES == 2 && t + 1 < TILES) {
            fill(space + (t + 1) % 2 * STAGE, error, weight, slice, o0 + OT);
            commit();
        }
        if (group < GO) {
            T gradient[OC][V] = {};
#pragma unroll 4
            for (int b = 0; b < BATCH; b++) {
                const Pack from = load(xs + b * IC + pack * V);
#pragma unroll
                for (int i = 0; i < OC / V; i++) {
                    const Pack e = load(es + b * OT + group * OC + i * V);
#pragma unroll
                    for (int o = 0; o < V; o++) {
#pragma unroll
                        for (int j = 0; j < V; j++) gradient[i * V + o][j] += e.v[o] * from.v[j];
                    }
                }
            }
#pragma unroll
            for (int i = 0; i < OC; i++) {
                const int o = o0 + group * OC + i;
                if (!has_output(o)) break;
#pragma unroll
                for (int j = 0; j < V / UNIT; j++) {
                    const int k = slice * IC + pack * V + j * UNIT;
                    Unit<UNIT> now = w[i][j];
                    if (BELOW) {
                        const T* held = es + ERRORS + (group * OC + i) * IC + pack * V + j * UNIT;
                        now = *reinterpret_cast<const Unit<UNIT>*>(held);
                    }
#pragma unroll
                    for (int l = 0; l < UNIT; l++) now.v[l] = fma(rate, gradient[i][j * UNIT + l], keep * now.v[l]);
                    if (has_input(k)) *reinterpret_cast<Unit<UNIT>*>(weight + o * IN + k) = now;
                }
            }
        }
        if (BIAS && slice == 0) {
            for (int o = threadIdx.x; o < OT && o0 + o < OUT; o += THREADS) {
                T sum = 0;
                for (int b = 0; b < BATCH; b++) sum += es[b * OT + o];
                T* at = bias + (long long)row * OUT + o0 + o;
                *at = fma(rate, sum, keep * *at);
            }
        }
        if (BELOW && group < GB) {
#pragma unroll 1
            for (int o = 0; o < OT; o += V) {
                Pack e[TB], held[V];
#pragma unroll
                for (int n = 0; n < TB; n++) e[n] = load(es + (n * GB + group) * OT + o);
#pragma unroll
                for (int i = 0; i < V; i++) held[i] = load(es + ERRORS + (o + i) * IC + pack * V);
#pragma unroll
                for (int i = 0; i < V; i++) {
#pragma unroll
                    for (int n = 0; n < TB; n++) {
#pragma unroll
                        for (int j = 0; j < V; j++) acc[n][j] += e[n].v[i] * held[i].v[j];
                    }
                }
            }
        }
    }
    if (!BELOW || group >= GB) return;
    below += (long long)row * BATCH * IN;
#pragma unroll
    for (int n = 0; n < TB; n++) {
        const int b = n * GB + group;
        if (b >= BATCH) break;
#pragma unroll
        for (int j = 0; j < V / UNIT; j++) {
            const int k = slice * IC + pack * V + j * UNIT;
            Unit<UNIT> down;
#pragma unroll
            for (int l = 0; l < UNIT; l++) {
                const T value = xs[b * IC + pack * V + j * UNIT + l];
                down.v[l] = acc[n][j * UNIT + l];
                if (RELU && value <= 0) down.v[l] = 0;
                if (TANH) down.v[l] *= 1 - value * value;
            }
            if (has_input(k)) *reinterpret_cast<Unit<UNIT>*>(below + b * IN + k) = down;
        }
    }
}
#endif
