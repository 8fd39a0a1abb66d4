// Global equalization, depth 16: 65536 counters or LUT entries take 128 KiB of shared memory, on GPUs that have as much.

#include "counting.cuh"
#include "levels.cuh"

// Adds to the counts in `histograms`. Grid: x = blocks that share the pixels; y = ranges of `range` levels (a multiple of 8, as many as
// shared memory holds); z = planes.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void histogram16(const u16* pixels, u64 count, u32 from, u32* histograms, u32 range) {
    typedef Pack<u16, CHANNELS> P;
    constexpr u32 AHEAD = CHANNELS == 3 ? 1 : 4;
    // Rounds of the loop between two calls of `settle`.
    constexpr u32 ROUNDS = HalfCounters::BETWEEN / block_threads<CHANNELS>() / P::PIXELS / AHEAD;
    extern __shared__ u32 words[];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const int plane = BY_CHANNEL ? blockIdx.z : 0;
    const HalfCounters counters = {words, blockIdx.y * range, range, histograms + 65536u * plane};
    const u64 packs = whole_packs<u16, CHANNELS>(pixels, count);
    const u64 stride = threads_of_grid();
    const u64 end = rounds_of_grid(packs) * stride;
    P ahead[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) ahead[k].load(pixels, thread_of_grid() + k * stride, packs);
    counters.clear();

    u32 rounds = 0;
    for (u64 i = thread_of_grid(); i < end; i += AHEAD * stride) {
        P here[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k] = ahead[k];
            ahead[k].load(pixels, i + (AHEAD + k) * stride, packs);
        }
        if (rounds++ == ROUNDS) counters.settle(), rounds = 1;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k].in_order(stage, from);
            if (i + k * stride < packs) counters.add_pack<CHANNELS, BY_CHANNEL>(here[k], plane);
        }
    }
    for (u64 first = packs * P::PIXELS; first < count; first += stride) {
        counters.settle();
        const u64 i = first + thread_of_grid();
        const u16* pixel = pixels + i * CHANNELS;
        if (i >= count || (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0)) continue;
        counters.add(key<CHANNELS, BY_CHANNEL>(pixel, plane, from), 1);
    }
    counters.move_all();
}

constexpr u32 LUT16_BLOCK = 1024;

// Turns 65536 counts into their LUT. Grid: x = 64 blocks of 1024 threads, one level per thread; y = planes. Each block sums up the whole
// histogram itself: reading 256 KiB from the L2 cache costs less than another launch.
extern "C" __global__ void __launch_bounds__(LUT16_BLOCK) lut16(const u32* histograms, u32 strength, u16* luts) {
    __shared__ u32 scratch[WARP];
    __shared__ u32 lowest;
    const u32* histogram = histograms + 65536u * blockIdx.y;
    const uint4* quads = reinterpret_cast<const uint4*>(histogram);
    if (threadIdx.x == 0) lowest = 65535;
    __syncthreads();
    u32 all = 0, below = 0;
    u32 seen = 65535;
#pragma unroll 4
    for (u32 q = threadIdx.x; q < 65536 / 4; q += LUT16_BLOCK) {
        const uint4 n = quads[q];
        const u32 sum = n.x + n.y + n.z + n.w;
        all += sum;
        if (q < blockIdx.x * (LUT16_BLOCK / 4)) below += sum;
        if (sum) seen = min(seen, 4 * q + (n.x ? 0 : n.y ? 1 : n.z ? 2 : 3));
    }
    if (seen < 65535) atomicMin(&lowest, seen);
    const u32 total = block_sum(all, scratch);
    const u32 before = block_sum(below, scratch);
    const u32 i = blockIdx.x * LUT16_BLOCK + threadIdx.x;
    const u32 running = before + block_scan(histogram[i], scratch);
    const u32 first = histogram[lowest];
    luts[65536u * blockIdx.y + i] = u16(weakened(i, equalized_level(i, running, first, total, 65535), strength));
}

// `apply16_shared` holds the only LUT in 128 KiB of shared memory, for many pixels per block on GPUs that have as much.
#define GLOBAL16(NAME, CHANNELS, BY_CHANNEL)                                                                                 \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        histogram16_##NAME(const u16* pixels, u64 count, u32 from, u32* histograms, u32 range) {                             \
        histogram16<CHANNELS, BY_CHANNEL>(pixels, count, from, histograms, range);                                           \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        apply16_##NAME(u16* pixels, u64 count, ByteOrders orders, const u16* __restrict__ luts) {                            \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        apply<CHANNELS, BY_CHANNEL, 1>(pixels, count, luts, stage, orders);                                                  \
    }
#define GLOBAL16_SHARED(NAME, CHANNELS)                                                                                      \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        apply16_shared_##NAME(u16* pixels, u64 count, ByteOrders orders, const u16* luts) {                                  \
        extern __shared__ uint4 lut[];                                                                                       \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        share(luts, lut, 65536 * sizeof(u16) / sizeof(uint4));                                                               \
        apply<CHANNELS, false, CHANNELS == 3 ? 2 : 4>(pixels, count, reinterpret_cast<const u16*>(lut), stage, orders);      \
    }
GLOBAL16(gray, 1, false)
GLOBAL16(gray_alpha, 2, false)
GLOBAL16(rgb_luma, 3, false)
GLOBAL16(rgb_channels, 3, true)
GLOBAL16(rgba_luma, 4, false)
GLOBAL16(rgba_channels, 4, true)
GLOBAL16_SHARED(gray, 1)
GLOBAL16_SHARED(gray_alpha, 2)
GLOBAL16_SHARED(rgb_luma, 3)
GLOBAL16_SHARED(rgba_luma, 4)
