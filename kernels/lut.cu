// From a histogram to the LUT of global equalization, in exact integers.

#pragma once
#include "common.cuh"

// Where level `i` goes, of a histogram whose running sum up to and with `i` is `running`: the textbook's
// round((c - c_min) / (N - c_min) * (L - 1)), halves up. `first`: the count of the lowest level that occurs (c_min).
// A constant picture stays as it is.
__device__ __forceinline__ u32 equalized_level(u32 i, u32 running, u32 first, u32 total, u32 top) {
    const u64 spread = total - first;
    if (spread == 0) return i;
    if (running <= first) return 0;
    return u32((2 * u64(running - first) * top + spread) / (2 * spread));
}

// Depth 8: thread `i` below 256 brings the count of level `i` and gets where it goes. All threads of the block take part.
__device__ __forceinline__ u32 equalized_level8(u32 count) {
    __shared__ u32 scratch[WARP];
    __shared__ u32 first, total;
    const u32 i = threadIdx.x;
    if (i == 0) first = 0;
    const u32 running = block_scan(i < 256 ? count : 0, scratch);
    if (i < 256 && count && running == count) first = count;
    if (i == 255) total = running;
    __syncthreads();
    return equalized_level(i, running, first, total, 255);
}

constexpr u32 LUT16_BLOCK = 1024;

// 65536 counts to their LUT. Grid: x = 64 blocks of 1024 threads, a level a thread; y = planes.
// Each block sums up the whole histogram by itself: reading 256 KiB from the L2 cache costs less than another launch.
extern "C" __global__ void __launch_bounds__(LUT16_BLOCK) lut16(const u32* histograms, u16* luts) {
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
    luts[65536u * blockIdx.y + i] = u16(equalized_level(i, running, first, total, 65535));
}
