// Convolution stages (convolution, 2x2 max pool if any, ReLU if any) of many small models at once.
//
// Row r is model r: it has its own weights [O, C, K, K], its own bias [O] and its own batch of images.
// A block works for one row, and every sum has one order that depends on the sizes alone: the bits of a
// row depend on nothing but its inputs. There are no atomics and no sums over blocks.
//
// `convolution.py` puts the sizes in front of this text as constants and asks for one of three kernels:
// FORWARD, INPUT_GRADIENT (the same correlation, of the errors with the flipped weights) and
// WEIGHT_GRADIENT.

#ifndef LINKAGE
#define LINKAGE extern "C"
#endif

constexpr int EH = H + 2 * PAD - K + 1, EW = W + 2 * PAD - K + 1;  // what the convolution gives
constexpr int CELL = POOL ? 2 : 1;
constexpr int PH = EH / CELL, PW = EW / CELL;  // what the stage gives
constexpr int V = 16 / sizeof(T);              // numbers that one load takes
#if defined(WEIGHT_GRADIENT)
constexpr int GAP = 0;
#endif

struct alignas(16) Pack {
    T v[V];
};
struct alignas(2 * sizeof(T)) Pair {
    T v[2];
};

__host__ __device__ constexpr int up(int n, int unit) { return (n + unit - 1) / unit * unit; }
__host__ __device__ constexpr int parts(int n, int unit) { return (n + unit - 1) / unit; }
__host__ __device__ constexpr int least(int a, int b) { return a < b ? a : b; }

__device__ __forceinline__ void clear(T* tile, int size) {
    for (int i = threadIdx.x; i < size; i += THREADS) tile[i] = 0;
}

#if defined(FORWARD) || defined(WEIGHT_GRADIENT)
constexpr int UNIT = W % V == 0 ? V : W % 2 == 0 ? 2 : 1;  // numbers of an image's line that are read at once
struct alignas(UNIT * sizeof(T)) Unit {
    T v[UNIT];
};

// Images [N][CHANNELS][ROWS][STRIDE], samples GAP apart, from image row `y0` on. Rows that lie outside become zero; the columns
// around an image are left alone (they must be zero).
template <int N_, int CHANNELS, int ROWS_>
__device__ __forceinline__ void fill(T* tile, const T* __restrict__ x, const long long* __restrict__ reads,
                                     int row, int b0, int c0, int y0) {
    constexpr int UNITS = W / UNIT;
    for (int i = threadIdx.x; i < N_ * CHANNELS * ROWS_ * UNITS; i += THREADS) {
        const int ix = i % UNITS * UNIT, line = i / UNITS, iy = line % ROWS_ + y0;
        const int c = c0 + line / ROWS_ % CHANNELS, n = line / (ROWS_ * CHANNELS);
        Unit unit = {};
        if (iy >= 0 && iy < H && c < C && b0 + n < BATCH) {
            const long long at = (long long)row * BATCH + b0 + n;
            const T* image = x + (GATHER ? reads[at] : at) * (C * H * W);
            unit = *reinterpret_cast<const Unit*>(image + (c * H + iy) * W + ix);
        }
#pragma unroll
        for (int j = 0; j < UNIT; j++)
            if (PAD + W <= STRIDE || PAD + ix + j < STRIDE) tile[line * STRIDE + n * GAP + PAD + ix + j] = unit.v[j];
    }
}
#endif

#if defined(INPUT_GRADIENT) || defined(WEIGHT_GRADIENT)
// Errors of the convolution's results [N][CHANNELS][ROWS][LONG] from row `y0` on, samples BETWEEN apart, out of the errors
// of the stage's results: through ReLU, and to the place in each cell that was the maximum. What lies in no
// cell is left alone (it must be zero). A thread keeps to one channel; gives the sum that it saw.
template <int N_, int CHANNELS, int ROWS_, int LONG, int BETWEEN, int LEFT>
__device__ __forceinline__ T expand(T* tile, const T* __restrict__ g, const T* __restrict__ out,
                                    const unsigned char* __restrict__ places, int row, int b0, int c0, int y0) {
    constexpr int PER = THREADS / CHANNELS, DEEP = least(PH, (ROWS_ + CELL - 2) / CELL + 1);
    static_assert(PER > 0, "a thread for each channel");
    const int channel = threadIdx.x / PER, lane = threadIdx.x % PER;
    T sum = 0;
    if (channel >= CHANNELS || c0 + channel >= O) return sum;
    const long long start = (((long long)row * BATCH + b0) * O + c0 + channel) * (PH * PW);
    const int first = y0 > 0 ? y0 / CELL : 0;
    for (int i = lane; i < N_ * DEEP * PW; i += PER) {
        const int px = i % PW, py = first + i / PW % DEEP, n = i / (PW * DEEP);
        if (py >= PH || b0 + n >= BATCH) continue;
        const long long at = start + (n * O * PH + py) * PW + px;
        T e = g[at];
        if (RELU && out[at] <= 0) e = 0;
        const int place = POOL ? places[at] : 0;
        T* to = tile + ((n * CHANNELS + channel) * ROWS_ + py * CELL - y0) * LONG + n * BETWEEN + LEFT + px * CELL;
        if (py * CELL >= y0 && py * CELL < y0 + ROWS_) sum += e;
#pragma unroll
        for (int dy = 0; dy < CELL; dy++) {
            const int y = py * CELL + dy - y0;
            if (y < 0 || y >= ROWS_) continue;
#pragma unroll
            for (int dx = 0; dx < CELL; dx++) to[dy * LONG + dx] = place == dy * 2 + dx ? e : T(0);
        }
    }
    return sum;
}
#endif

#if defined(FORWARD) || defined(INPUT_GRADIENT)
// A thread has OC channels of PX quads (2x2 positions) side by side. A block has N samples, QR rows of
// quads and CH chunks of OC channels, and takes IC channels of what comes in at a time.
#if defined(FORWARD)
constexpr int FROM = C, TO = O, OH = PH, OW = PW, QUAD = POOL ? 1 : 2;  // positions across that a quad gives
#else
constexpr int FROM = O, TO = C, OH = H, OW = W, QUAD = 2;
#endif
constexpr int QY = parts(OH, QUAD), QX = parts(OW, QUAD);
constexpr int QG = parts(QX, PX), TILES = parts(QY, QR), PARTS = parts(TO, OC * CH);
constexpr int GROUPS = parts(BATCH, N);
constexpr int TR = 2 * QR + K - 1, SAMPLE = IC * TR * STRIDE + GAP;
constexpr int OCP = up(OC, V);
constexpr int TAP = CH * OCP / V % 2 ? CH * OCP : CH * OCP + V;  // an odd number of packs: fewer conflicts
constexpr int WIDE = 2 * PX + K - 1;                             // what a thread reads of a row
constexpr int SHARE = QUAD * QR * OW;      // of a channel of a sample, what a block gives: whole lines
constexpr int GIVEN = N * CH * OC * SHARE;
constexpr int IMAGES = up(N * SAMPLE, V), TAPS = IC * K * K * TAP;
constexpr int RESULTS = GIVEN + (POOL ? parts(GIVEN, int(sizeof(T))) : 0);
constexpr int SPACE = IMAGES + TAPS > RESULTS ? IMAGES + TAPS : RESULTS;
static_assert(STRIDE % 2 == 0 && GAP % 2 == 0 && STRIDE >= 2 * PX * (QG - 1) + up(WIDE, 2), "the rows are too short");
static_assert(N * CH * QR * QG <= THREADS, "too few threads");

__device__ __forceinline__ void correlate(T (&acc)[OC][2][2 * PX], const T* image, const T* taps) {
    T lines[2][up(WIDE, 2)];
#pragma unroll
    for (int y = 0; y <= K; y++) {
#pragma unroll
        for (int i = 0; i < up(WIDE, 2) / 2; i++) {
            const Pair pair = *reinterpret_cast<const Pair*>(image + y * STRIDE + 2 * i);
            lines[y % 2][2 * i] = pair.v[0];
            lines[y % 2][2 * i + 1] = pair.v[1];
        }
        if (y == 0) continue;
#pragma unroll
        for (int kx = 0; kx < K; kx++) {
            T w[OCP];
#pragma unroll
            for (int i = 0; i < OCP / V; i++) {
                const Pack pack = *reinterpret_cast<const Pack*>(taps + ((y - 1) * K + kx) * TAP + i * V);
#pragma unroll
                for (int j = 0; j < V; j++) w[i * V + j] = pack.v[j];
            }
#pragma unroll
            for (int o = 0; o < OC; o++) {
#pragma unroll
                for (int x = 0; x < 2 * PX; x++) {
                    acc[o][0][x] += w[o] * lines[(y - 1) % 2][kx + x];
                    acc[o][1][x] += w[o] * lines[y % 2][kx + x];
                }
            }
        }
    }
}

// The weights of `count` incoming channels as [channel][tap][chunk][OCP]; flipped for the gradient.
__device__ __forceinline__ void fill_taps(T* taps, const T* __restrict__ weight, int row, int part, int c0) {
    weight += (long long)row * (O * C * K * K);
    for (int i = threadIdx.x; i < CH * OC * IC * K * K; i += THREADS) {
        const int tap = i % (K * K);
#if defined(FORWARD)
        const int c = i / (K * K) % IC, o = i / (K * K * IC);
#else
        const int o = i / (K * K) % (CH * OC), c = i / (K * K * CH * OC);
#endif
        const int from = c0 + c, to = part * CH * OC + o;
        if (from >= FROM || to >= TO) continue;
#if defined(FORWARD)
        const T value = weight[(to * C + from) * (K * K) + tap];
#else
        const T value = weight[(from * C + to) * (K * K) + K * K - 1 - tap];
#endif
        taps[(c * K * K + tap) * TAP + o / OC * OCP + o % OC] = value;
    }
}

struct Place {
    int row, group, part, tile;
};

// What a block gives, [N][CH * OC][SHARE], to where it belongs: neighbours write side by side.
template <class Number>
__device__ __forceinline__ void hand_out(const Number* given, Number* __restrict__ to, Place at) {
    for (int i = threadIdx.x; i < GIVEN; i += THREADS) {
        const int inside = at.tile * SHARE + i % SHARE;
        const int channel = at.part * CH * OC + i / SHARE % (CH * OC), b = at.group * N + i / (SHARE * CH * OC);
        if (inside < OH * OW && channel < TO && b < BATCH)
            to[(((long long)at.row * BATCH + b) * TO + channel) * (OH * OW) + inside] = given[i];
    }
}

__device__ __forceinline__ Place place_of_block() {
    int block = blockIdx.x;
    Place place;
    place.tile = block % TILES, block /= TILES;
    place.part = block % PARTS, block /= PARTS;
    place.group = block % GROUPS;
    place.row = block / GROUPS;
    return place;
}
#endif

#if defined(FORWARD)
LINKAGE __global__ void __launch_bounds__(THREADS)
    forward(const T* __restrict__ x, const long long* __restrict__ reads, const T* __restrict__ weight,
            const T* __restrict__ bias, T* __restrict__ out, unsigned char* __restrict__ places) {
    alignas(16) __shared__ T space[SPACE];
    T *const image = space, *const taps = space + IMAGES;
    const Place at = place_of_block();
    int item = threadIdx.x;
    const int qg = item % QG, qr = item / QG % QR, n = item / (QG * QR) % N, chunk = item / (QG * QR * N);
    const bool active = chunk < CH;
    T acc[OC][2][2 * PX] = {};
    clear(image, IMAGES);
    for (int c0 = 0; c0 < C; c0 += IC) {
        __syncthreads();
        fill<N, IC, TR>(image, x, reads, at.row, at.group * N, c0, at.tile * 2 * QR - PAD);
        fill_taps(taps, weight, at.row, at.part, c0);
        __syncthreads();
        if (active) {
#pragma unroll 1
            for (int c = 0; c < least(IC, C - c0); c++)
                correlate(acc, image + n * SAMPLE + (c * TR + 2 * qr) * STRIDE + 2 * PX * qg,
                          taps + c * K * K * TAP + chunk * OCP);
        }
    }
    __syncthreads();
    T* const given = space;
    unsigned char* const given_places = reinterpret_cast<unsigned char*>(space + GIVEN);
#pragma unroll
    for (int i = 0; i < OC; i++) {
        const int o = (at.part * CH + chunk) * OC + i, start = ((n * CH + chunk) * OC + i) * SHARE;
        if (!active || o >= O) break;
        const T add = BIAS ? bias[at.row * O + o] : T(0);
#pragma unroll
        for (int p = 0; p < PX; p++) {
            const int qx = qg * PX + p;
            if (qx >= QX) break;
            if (POOL) {
                T best = acc[i][0][2 * p] + add;
                int place = 0;
#pragma unroll
                for (int j = 1; j < 4; j++) {
                    const T v = acc[i][j / 2][2 * p + j % 2] + add;
                    if (v > best || v != v) best = v, place = j;
                }
                if (RELU && best <= 0) best = 0;
                given[start + qr * OW + qx] = best;
                given_places[start + qr * OW + qx] = place;
            } else {
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const int ox = 2 * qx + j % 2;
                    T v = acc[i][j / 2][2 * p + j % 2] + add;
                    if (RELU && v <= 0) v = 0;
                    if (ox < OW) given[start + (2 * qr + j / 2) * OW + ox] = v;
                }
            }
        }
    }
    __syncthreads();
    hand_out(given, out, at);
    if (POOL) hand_out(given_places, places, at);
}
#endif

#if defined(INPUT_GRADIENT)
LINKAGE __global__ void __launch_bounds__(THREADS)
    input_gradient(const T* __restrict__ g, const T* __restrict__ out, const unsigned char* __restrict__ places,
                   const T* __restrict__ weight, T* __restrict__ below) {
    alignas(16) __shared__ T space[SPACE];
    T *const errors = space, *const taps = space + IMAGES;
    const Place at = place_of_block();
    int item = threadIdx.x;
    const int qg = item % QG, qr = item / QG % QR, n = item / (QG * QR) % N, chunk = item / (QG * QR * N);
    const bool active = chunk < CH;
    T acc[OC][2][2 * PX] = {};
    clear(errors, IMAGES);
    for (int o0 = 0; o0 < O; o0 += IC) {
        __syncthreads();
        constexpr int EDGE = K - 1 - PAD;
        expand<N, IC, TR, STRIDE, GAP, EDGE>(errors, g, out, places, at.row, at.group * N, o0, at.tile * 2 * QR - EDGE);
        fill_taps(taps, weight, at.row, at.part, o0);
        __syncthreads();
        if (active) {
#pragma unroll 1
            for (int o = 0; o < least(IC, O - o0); o++)
                correlate(acc, errors + n * SAMPLE + (o * TR + 2 * qr) * STRIDE + 2 * PX * qg,
                          taps + o * K * K * TAP + chunk * OCP);
        }
    }
    __syncthreads();
    if (active) {
#pragma unroll
        for (int i = 0; i < OC; i++) {
            T* given = space + ((n * CH + chunk) * OC + i) * SHARE + 2 * qr * OW;
#pragma unroll
            for (int dx = 0; dx < 2 * PX; dx++) {
                const int x = 2 * PX * qg + dx;
                if (x < OW) given[x] = acc[i][0][dx], given[OW + x] = acc[i][1][dx];
            }
        }
    }
    __syncthreads();
    hand_out(space, below, at);
}
#endif

#if defined(WEIGHT_GRADIENT)
// A thread has one line of taps (a channel c, a ky) of OC outputs, and every SP-th line of the errors. A
// block has IC channels and OC outputs, and takes N samples and RB lines of errors at a time.
constexpr int ROWS = CELL * PH, COLUMNS = CELL * PW;  // where errors can be
constexpr int TR = RB + K - 1;
constexpr int LINE = up(COLUMNS, V);
constexpr int ITEMS = IC * K;
constexpr int CPARTS = parts(C, IC), OPARTS = parts(O, OC);
constexpr int ERRORS = N * OC * RB * LINE, IMAGE = N * IC * TR * STRIDE, SHARES = THREADS * K;
constexpr int SPACE = ERRORS + IMAGE > SHARES ? ERRORS + IMAGE : SHARES;
static_assert(STRIDE >= COLUMNS + K - 1, "the rows are too short");
static_assert(ITEMS * SP <= THREADS, "too few threads");
static_assert(RB % CELL == 0, "bands cut through cells");

// `COUNT` more columns: `window` holds the K - 1 before the first of them.
template <int COUNT>
__device__ __forceinline__ void take(T (&acc)[OC][K], T (&window)[K - 1 + V], const T* image, const T* errors) {
#pragma unroll
    for (int j = 0; j < COUNT; j++) window[K - 1 + j] = image[j];
#pragma unroll
    for (int o = 0; o < OC; o++) {
        const Pack e = *reinterpret_cast<const Pack*>(errors + o * (RB * LINE));
#pragma unroll
        for (int j = 0; j < COUNT; j++) {
#pragma unroll
            for (int kx = 0; kx < K; kx++) acc[o][kx] += e.v[j] * window[j + kx];
        }
    }
#pragma unroll
    for (int i = 0; i < K - 1; i++) window[i] = window[i + COUNT];
}

LINKAGE __global__ void __launch_bounds__(THREADS)
    weight_gradient(const T* __restrict__ x, const long long* __restrict__ reads, const T* __restrict__ g,
                    const T* __restrict__ out, const unsigned char* __restrict__ places, T* __restrict__ gradient,
                    T* __restrict__ bias_gradient) {
    alignas(16) __shared__ T space[SPACE];
    T *const errors = space, *const image = space + ERRORS;
    const int cpart = blockIdx.x % CPARTS, opart = blockIdx.x / CPARTS % OPARTS, row = blockIdx.x / (CPARTS * OPARTS);
    const int item = threadIdx.x % ITEMS, split = threadIdx.x / ITEMS, c = item / K, ky = item % K;
    T acc[OC][K] = {}, sum = 0;
    clear(space, ERRORS + IMAGE);
    for (int b0 = 0; b0 < BATCH; b0 += N) {
        for (int y0 = 0; y0 < ROWS; y0 += RB) {
            __syncthreads();
            fill<N, IC, TR>(image, x, reads, row, b0, cpart * IC, y0 - PAD);
            sum += expand<N, OC, RB, LINE, 0, 0>(errors, g, out, places, row, b0, opart * OC, y0);
            __syncthreads();
            if (split >= SP) continue;
            for (int line = split; line < N * RB; line += SP) {
                const int n = line / RB, y = line % RB;
                if (b0 + n >= BATCH || y0 + y >= ROWS) continue;
                const T* e = errors + (n * OC * RB + y) * LINE;
                const T* from = image + ((n * IC + c) * TR + y + ky) * STRIDE;
                T window[K - 1 + V];
#pragma unroll
                for (int i = 0; i < K - 1; i++) window[i] = from[i];
                from += K - 1;
#pragma unroll 2
                for (int xb = 0; xb < COLUMNS / V; xb++) take<V>(acc, window, from + xb * V, e + xb * V);
                if (COLUMNS % V) {
                    constexpr int DONE = COLUMNS / V * V;
                    take<COLUMNS % V>(acc, window, from + DONE, e + DONE);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < OC; i++) {
        __syncthreads();
        if (split < SP) {
#pragma unroll
            for (int kx = 0; kx < K; kx++) space[(split * ITEMS + item) * K + kx] = acc[i][kx];
        }
        __syncthreads();
        const int o = opart * OC + i;
        for (int tap = threadIdx.x; tap < ITEMS * K; tap += THREADS) {
            if (o >= O || cpart * IC + tap / (K * K) >= C) break;
            T total = 0;
            for (int s = 0; s < SP; s++) total += space[s * ITEMS * K + tap];
            gradient[(((long long)row * O + o) * C + cpart * IC) * (K * K) + tap] = total;
        }
    }
    if (BIAS && cpart == 0) {
        __syncthreads();
        space[threadIdx.x] = sum;
        __syncthreads();
        const int o = opart * OC + threadIdx.x;
        if (threadIdx.x < OC && o < O) {
            T total = 0;
            for (int s = 0; s < THREADS / OC; s++) total += space[threadIdx.x * (THREADS / OC) + s];
            bias_gradient[(long long)row * O + o] = total;
        }
    }
}
#endif
