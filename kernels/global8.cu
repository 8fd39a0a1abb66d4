// Global equalization, depth 8. Two launches, so that a picture may come in chunks, or one for GPUs that can launch
// cooperatively. Blocks: `block_threads` at most, whole warps.

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

// Sums of one launch. There are two: each launch uses one and zeroes the other, which the launch before it has used.
struct Sums {
    u32 histograms[768];
    u32 arrived;
};

// Waits until every block of the grid has come here. What they wrote before is then seen by all.
__device__ __forceinline__ void wait_for_grid(u32* arrived) {
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        atomicAdd(arrived, 1);
        while (*static_cast<volatile u32*>(arrived) < gridDim.x) {}
        __threadfence();
    }
    __syncthreads();
}

// Both passes in one launch: all blocks run at once and wait for each other between them. The last `KEPT` packs of a thread stay
// in registers meanwhile; the others most likely in the L2 cache.
template <int CHANNELS, bool BY_CHANNEL, int KEPT>
__device__ __forceinline__ void equalize8(u8* pixels, u64 count, Sums* sums, u32 turn) {
    typedef Counters8<CHANNELS, BY_CHANNEL> Counters;
    typedef typename Counters::P P;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    __shared__ u8 lut[Counters::PLANES * 256];
    Sums* const mine = sums + turn;
    if (blockIdx.x == 0) {
        for (u32 i = threadIdx.x; i < sizeof(Sums) / sizeof(u32); i += blockDim.x) reinterpret_cast<u32*>(sums + (1 - turn))[i] = 0;
    }
    const Counters counters = {words};
    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    const u64 rounds = rounds_of_grid(packs);
    const u64 kept_from = (rounds > KEPT ? rounds - KEPT : 0) * stride + thread_of_grid();
    P ahead;
    if (thread_of_grid() < kept_from) ahead.load(pixels, thread_of_grid(), packs);
    counters.clear();
    for (u64 i = thread_of_grid(); i < kept_from; i += stride) {
        P here = ahead;
        if (i + stride < kept_from) ahead.load(pixels, i + stride, packs);
        here.in_order(stage);
        counters.add(here);
    }
    P kept[KEPT];
#pragma unroll
    for (int k = 0; k < KEPT; ++k) kept[k].load(pixels, kept_from + k * stride, packs);
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        P here = kept[k];
        here.in_order(stage);
        if (kept_from + k * stride < packs) counters.add(here);
    }
    counters.add_singles(pixels, packs * P::PIXELS, count);
    counters.add_to(mine->histograms);
    wait_for_grid(&mine->arrived);

#pragma unroll 1
    for (int plane = 0; plane < Counters::PLANES; ++plane) {
        const u32 i = threadIdx.x;
        const u32 level = equalized_level8(i < 256 ? __ldcg(mine->histograms + plane * 256 + i) : 0);
        if (i < 256) lut[plane * 256 + i] = u8(level);
    }
    __syncthreads();
#pragma unroll
    for (int k = 0; k < KEPT; ++k) {
        equalized_pack<CHANNELS, BY_CHANNEL, u8>(kept[k], lut, stage).store(pixels, kept_from + k * stride, packs);
    }
    for (u64 i = kept_from; i >= stride;) {
        i -= stride;
        P here;
        here.load(pixels, i, packs);
        equalized_pack<CHANNELS, BY_CHANNEL, u8>(here, lut, stage).store(pixels, i, packs);
    }
    apply_singles<CHANNELS, BY_CHANNEL, u8>(pixels, packs * P::PIXELS, count, lut);
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

// 64 registers a thread: two pictures share a multiprocessor.
#define TOGETHER8(NAME, CHANNELS, BY_CHANNEL, KEPT)                                                                          \
    extern "C" __global__ void __launch_bounds__(512, 2) equalize8_##NAME(u8* pixels, u64 count, Sums* sums, u32 turn) {     \
        equalize8<CHANNELS, BY_CHANNEL, KEPT>(pixels, count, sums, turn);                                                    \
    }
TOGETHER8(gray, 1, false, 6)
TOGETHER8(rgb_luma, 3, false, 2)
