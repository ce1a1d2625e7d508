// Runs CUDA kernels on the CPU: one block after the other, its threads as fibres that take turns at barriers.
#include <ucontext.h>

#include <cmath>
#include <cstring>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define LINKAGE static

using Reads = long long;
using Places = unsigned char;

struct Index {
    int x;
};
static Index threadIdx, blockIdx;

struct Fibre {
    ucontext_t state;
    bool ended;
    alignas(16) char stack[32 * 1024];
};
static Fibre fibres[1024];
static ucontext_t scheduler;
static void (*body)(void**);
static void** arguments;

static void __syncthreads() {
    const int self = threadIdx.x;
    swapcontext(&fibres[self].state, &scheduler);
    threadIdx.x = self;
}

// All threads of a block must come by.
template <class T>
static T __shfl_xor_sync(unsigned, T value, int mask) {
    static T values[1024];
    values[threadIdx.x] = value;
    __syncthreads();
    const T other = values[threadIdx.x ^ mask];
    __syncthreads();
    return other;
}

static double __longlong_as_double(long long bits) {
    double number;
    std::memcpy(&number, &bits, sizeof number);
    return number;
}

static void fibre() {
    const int self = threadIdx.x;
    body(arguments);
    fibres[self].ended = true;
}

static void launch(int blocks, int threads, void (*kernel)(void**), void** with) {
    body = kernel, arguments = with;
    for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) {
        for (int t = 0; t < threads; t++) {
            Fibre& one = fibres[t];
            getcontext(&one.state);
            one.ended = false;
            one.state.uc_stack.ss_sp = one.stack;
            one.state.uc_stack.ss_size = sizeof one.stack;
            one.state.uc_link = &scheduler;
            makecontext(&one.state, fibre, 0);
        }
        for (int left = threads; left > 0;) {
            for (int i = 0; i < threads; i++) {
                const int t = blockIdx.x % 2 ? threads - 1 - i : i;  // no order may matter
                if (fibres[t].ended) continue;
                threadIdx.x = t;
                swapcontext(&scheduler, &fibres[t].state);
                left -= fibres[t].ended;
            }
        }
    }
}
