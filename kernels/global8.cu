// Global equalization, depth 8. Two launches, so that a picture may come in chunks. Blocks: `block_threads` at most, whole warps.

#include "counting.cuh"
#include "levels.cuh"

// Adds to what is in `histograms`. `finish`: this launch is the picture's last, and its last block turns the sums into LUTs
// and zeroes them again.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void histogram8(const u8* pixels, u64 count, u32* histograms, u32* arrived, u8* luts, u32 finish) {
    typedef Counters8<CHANNELS, BY_CHANNEL> Counters;
    typedef typename Counters::P P;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const Counters counters = {words};
    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    const u64 end = rounds_of_grid(packs) * stride;
    P ahead;
    ahead.load(pixels, thread_of_grid(), packs);
    counters.clear();
    for (u64 i = thread_of_grid(); i < end; i += stride) {
        P here = ahead;
        ahead.load(pixels, i + stride, packs);
        here.in_order(stage);
        if (i < packs) counters.add(here);
    }
    counters.add_singles(pixels, packs * P::PIXELS, count);
    counters.add_to(histograms);
    if (finish && last_of(gridDim.x, arrived)) {
        const u32 i = threadIdx.x;
#pragma unroll 1
        for (int plane = 0; plane < Counters::PLANES; ++plane, histograms += 256, luts += 256) {
            const u32 level = equalized_level8(i < 256 ? __ldcg(histograms + i) : 0);
            if (i < 256) luts[i] = u8(level), histograms[i] = 0;
        }
    }
}

template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void apply8(u8* pixels, u64 count, const u8* luts) {
    constexpr int BYTES = BY_CHANNEL ? 768 : 256;
    __shared__ uint4 lut[BYTES / 16];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    share(luts, lut, BYTES / 16);
    apply<CHANNELS, BY_CHANNEL, 1>(pixels, count, reinterpret_cast<const u8*>(lut), stage);
}

#define GLOBAL8(NAME, CHANNELS, BY_CHANNEL)                                                                                  \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        histogram8_##NAME(const u8* pixels, u64 count, u32* histograms, u32* arrived, u8* luts, u32 finish) {                \
        histogram8<CHANNELS, BY_CHANNEL>(pixels, count, histograms, arrived, luts, finish);                                  \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        apply8_##NAME(u8* pixels, u64 count, const u8* luts) {                                                               \
        apply8<CHANNELS, BY_CHANNEL>(pixels, count, luts);                                                                   \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
