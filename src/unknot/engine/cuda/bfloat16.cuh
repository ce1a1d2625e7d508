// Numbers in half precision (bfloat16), eight at a time; nothing is included, so that no toolkit need be there.

typedef unsigned short half_t;  // bfloat16: the upper half of a float

struct alignas(16) Eight {
    half_t v[8];
};

__device__ __forceinline__ float wide(half_t x) { return __uint_as_float(static_cast<unsigned>(x) << 16); }

// To the nearest, ties to even; what is no number stays none.
__device__ __forceinline__ half_t narrow(float x) {
    const unsigned bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<half_t>((bits >> 16) | 0x40u);
    return static_cast<half_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

__device__ __forceinline__ Eight load(const half_t* at) { return *reinterpret_cast<const Eight*>(at); }
__device__ __forceinline__ void store(half_t* at, const Eight& x) { *reinterpret_cast<Eight*>(at) = x; }
