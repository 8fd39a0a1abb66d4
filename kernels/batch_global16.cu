// Batches of pictures with one LUT for a plane, depth 16; and counts made into running sums and bins, which both depths need.

#include "batch.cuh"

// Counts gray pixels where there is a counter for every level. A pack of only one level is counted at once.
template <int CHANNELS> __device__ __forceinline__ void count_gray(u32* words, const Pack<u16, CHANNELS>& pack) {
    // Two counters a word: the address is twice the even level, and an odd level adds to the upper half.
    const SharedWords<1> counters(words);
    auto add = [=](u32 level, u32 times) {
        const u32 address = counters.from + 2 * (level & ~1u), amount = times + (level & 1) * (65535 * times);
        asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(amount) : "memory");
    };
    const u32 first = pack.word(0);
    bool flat = __byte_perm(first, 0, 0x1032) == first;
#pragma unroll
    for (int w = 1; w < 4; ++w) flat &= pack.word(w) == first;
    if (flat) return add(first & 0xffff, Pack<u16, 1>::PIXELS);
#pragma unroll
    for (int i = 0; i < Pack<u16, 1>::PIXELS; ++i) add(isolated<u16>(pack.word(i / 2), i % 2), 1);
}

// Counts the planes of each picture. Grid: x = blocks that share the pixels; y = ranges of `range` levels (a multiple of 8, as many as shared
// memory holds); z = planes, picture by picture. `mask`: as for `batch_count8`. `histograms`: 65536 counts for each plane; those of two
// pictures are `stride` counts apart.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void count16(const Pictures& pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride, u32 range) {
    typedef Pack<u16, CHANNELS> P;
    constexpr u32 PLANES = BY_CHANNEL ? 3 : 1;
    constexpr u32 AHEAD = CHANNELS == 3 ? 1 : 4;
    // Rounds of the loop between two calls of `settle`.
    constexpr u32 ROUNDS = HalfCounters::BETWEEN / block_threads<CHANNELS>() / P::PIXELS / AHEAD;
    extern __shared__ u32 words[];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const u32 picture = blockIdx.z / PLANES;
    const int plane = blockIdx.z % PLANES;
    const HalfCounters counters = {words, blockIdx.y * range, range, histograms + picture * u64(stride) + 65536u * plane};
    const u16* pixels = pictures.source<u16>(picture);
    Run<u16, CHANNELS> run(pixels, pixels, pictures.pixels);
    if (mask) run.head = run.count, run.packs = 0, mask += picture * mask_pitch;
    const u16* packed = pixels + run.head * CHANNELS;
    const u64 packs = run.packs, step = threads_of_grid(), end = rounds_of_grid(packs) * step;
    P ahead[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) ahead[k].load(packed, thread_of_grid() + k * step, packs);
    counters.clear();

    u32 rounds = 0;
    for (u64 i = thread_of_grid(); i < end; i += AHEAD * step) {
        P here[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k] = ahead[k];
            ahead[k].load(packed, i + (AHEAD + k) * step, packs);
        }
        if (rounds++ == ROUNDS) counters.settle(), rounds = 1;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k].in_order(stage);
            if (i + k * step >= packs) continue;
            if (CHANNELS == 1 && range == 65536) {
                count_gray(counters.words, here[k]);
            } else {
                counters.add_pack<CHANNELS, BY_CHANNEL>(here[k], plane);
            }
        }
    }
    const u64 singles = run.singles();
    for (u64 first = 0; first < singles; first += step) {
        if (first / step % (HalfCounters::BETWEEN / 1024) == 0) counters.settle();
        const u64 k = first + thread_of_grid();
        if (k >= singles) continue;
        const u64 i = run.single(k);
        const u16* pixel = pixels + i * CHANNELS;
        if ((mask && mask[i] == 0) || (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0)) continue;
        counters.add(key<CHANNELS, BY_CHANNEL>(pixel, plane), 1);
    }
    counters.move_all();
}

// Counts the last of `channels` channels, whatever it is. Where a warp's pixels agree, they are counted at once.
extern "C" __global__ void __launch_bounds__(1024) batch_count_alpha16(
    Pictures pictures, u32 channels, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {
    const u16* alpha = pictures.source<u16>(blockIdx.y) + channels - 1;
    u32* histogram = histograms + blockIdx.y * u64(stride);
    for (u64 first = thread_of_grid() - threadIdx.x % WARP; first < pictures.pixels; first += threads_of_grid()) {
        const u64 i = first + threadIdx.x % WARP;
        const bool counts = i < pictures.pixels && (mask == nullptr || mask[blockIdx.y * mask_pitch + i]);
        const u32 level = counts ? alpha[i * channels] : 0;
        const u32 those = __ballot_sync(FULL_WARP, counts);
        const u32 leader = those ? __ffs(those) - 1 : 0;
        const u32 common = __shfl_sync(FULL_WARP, level, leader);
        if (__all_sync(FULL_WARP, !counts || level == common)) {
            if (those && threadIdx.x % WARP == leader) atomicAdd(histogram + common, __popc(those));
        } else if (counts) {
            atomicAdd(histogram + level, 1);
        }
    }
}

// Running sums of planes of 65536 counts take two launches: `batch_sums` adds up each 1024 of them, and `batch_running` adds on.
// Grid: x = 64, y = planes. Block: 1024.
__device__ __forceinline__ u64 block_sum64(u64 value, u64* scratch) {
#pragma unroll
    for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
    __syncthreads();
    if (threadIdx.x % WARP == 0) scratch[threadIdx.x / WARP] = value;
    __syncthreads();
    value = scratch[threadIdx.x % WARP];
#pragma unroll
    for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
    return value;
}

template <typename C> __device__ __forceinline__ void sums(const C* histograms, u64* sums) {
    __shared__ u64 scratch[WARP];
    const u64 all = block_sum64(histograms[blockIdx.y * 65536ull + blockIdx.x * 1024 + threadIdx.x], scratch);
    if (threadIdx.x == 0) sums[blockIdx.y * 64 + blockIdx.x] = all;
}
extern "C" __global__ void __launch_bounds__(1024) batch_sums(const u32* histograms, u64* of_blocks) { sums(histograms, of_blocks); }
extern "C" __global__ void __launch_bounds__(1024) batch_sums_of_sums(const u64* histograms, u64* of_blocks) {
    sums(histograms, of_blocks);
}

template <typename C> __device__ __forceinline__ void running_sums(const C* histograms, const u64* sums, u64* running) {
    __shared__ u64 scratch[WARP];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    const u64 before = block_sum64(threadIdx.x < blockIdx.x ? sums[blockIdx.y * 64 + threadIdx.x] : 0, scratch);
    const u64 at = blockIdx.y * 65536ull + blockIdx.x * 1024 + threadIdx.x;
    u64 sum = histograms[at];
#pragma unroll
    for (int step = 1; step < int(WARP); step *= 2) {
        const u64 other = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step) sum += other;
    }
    __syncthreads();
    if (lane == WARP - 1) scratch[warp] = sum;
    __syncthreads();
    u64 of_warps = scratch[lane];
#pragma unroll
    for (int step = 1; step < int(WARP); step *= 2) {
        const u64 other = __shfl_up_sync(FULL_WARP, of_warps, step);
        if (lane >= step) of_warps += other;
    }
    const u64 warps_before = __shfl_sync(FULL_WARP, of_warps, warp ? warp - 1 : 0);
    running[at] = before + sum + (warp ? warps_before : 0);
}
extern "C" __global__ void __launch_bounds__(1024) batch_running(const u32* histograms, const u64* of_blocks, u64* running) {
    running_sums(histograms, of_blocks, running);
}
extern "C" __global__ void __launch_bounds__(1024) batch_running_of_sums(const u64* histograms, const u64* of_blocks, u64* running) {
    running_sums(histograms, of_blocks, running);
}

// Makes the LUT of each plane from its running sums. Grid: x = 64, y = planes in all, of which `planes` follow one another in a picture.
extern "C" __global__ void __launch_bounds__(1024) batch_luts16(const u64* running, Rule rule, u32 planes, u16* luts) {
    const u64* mine = running + blockIdx.y * 65536ull;
    const Curve curve(rule, mine, 65536, blockIdx.y % planes, ByBlock());
    const u32 i = blockIdx.x * 1024 + threadIdx.x;
    luts[blockIdx.y * 65536ull + i] = u16(curve.level(i, mine[i]));
}

// Sums the histograms of all pictures and their running sums, for 256 levels: those of a reference. Block: 256. Grid: planes, which
// follow one another in a picture.
extern "C" __global__ void __launch_bounds__(256) batch_running8(const u64* histograms, u64* running) {
    __shared__ u64 sums[256];
    sums[threadIdx.x] = histograms[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    u64 sum = 0;
    for (u32 i = 0; i <= threadIdx.x; ++i) sum += sums[i];
    running[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Adds up the counts of all `number` pictures, `size` counts each.
extern "C" __global__ void __launch_bounds__(256) batch_total(const u32* histograms, u32 number, u32 size, u64* total) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    u64 sum = 0;
    for (u32 picture = 0; picture < number; ++picture) sum += histograms[u64(picture) * size + i];
    total[i] = sum;
}

// Shares the `levels` levels of each plane among `bins` bins. Grid: y = planes.
extern "C" __global__ void __launch_bounds__(256) batch_bins(const u32* histograms, u32 levels, u32 bins, u64* binned) {
    const u32 bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    // The levels `i` with `i * bins / levels == bin`.
    const u32 from = u32((u64(bin) * levels + bins - 1) / bins), to = u32((u64(bin + 1) * levels + bins - 1) / bins);
    u64 sum = 0;
    for (u32 i = from; i < to; ++i) sum += histograms[u64(blockIdx.y) * levels + i];
    binned[u64(blockIdx.y) * bins + bin] = sum;
}

// Sends pictures through LUTs; those of two pictures are `stride` entries apart. Grid: x = blocks that share a picture, y = pictures.
template <int CHANNELS, bool BY_CHANNEL, int AT_ONCE>
__device__ __forceinline__ void map16(const Pictures& pictures, const u16* luts, uint4* stage) {
    typedef Pack<u16, CHANNELS> P;
    const u16* from = pictures.source<u16>(blockIdx.y);
    u16* to = pictures.target<u16>(blockIdx.y);
    const Run<u16, CHANNELS> run(from, to, pictures.pixels);
    const u16* packed = from + run.head * CHANNELS;
    u16* packed_to = to + run.head * CHANNELS;
    const u64 step = threads_of_grid(), rounds = rounds_of_grid(run.packs);
    // From the end, which the L2 cache still holds.
    P ahead[AT_ONCE];
    auto load = [&](u64 round) {
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (k < i64(round)) ahead[k].load(packed, (round - 1 - k) * step + thread_of_grid(), run.packs, true);
        }
    };
    load(rounds);
    for (i64 round = rounds; round > 0; round -= AT_ONCE) {
        P here[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) here[k] = ahead[k];
        load(max(round - AT_ONCE, i64(0)));
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) {
            if (k >= round) break;
            here[k].in_order(stage);
            P out = map_pack<CHANNELS, BY_CHANNEL, u16>(here[k], luts);
            out.in_lines(stage);
            out.store(packed_to, (round - 1 - k) * step + thread_of_grid(), run.packs);
        }
    }
    const u64 singles = run.singles();
    for (u64 k = thread_of_grid(); k < singles; k += step) {
        const u64 i = run.single(k);
        map_single<CHANNELS, BY_CHANNEL>(from + i * CHANNELS, to + i * CHANNELS, luts);
    }
}

#define GLOBAL16(NAME, CHANNELS, BY_CHANNEL)                                                                                 \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>()) batch_count16_##NAME(                            \
        Pictures pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride, u32 range) {                         \
        count16<CHANNELS, BY_CHANNEL>(pictures, mask, mask_pitch, histograms, stride, range);                                \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        batch_map16_##NAME(Pictures pictures, const u16* luts, u32 stride) {                                                 \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        map16<CHANNELS, BY_CHANNEL, 1>(pictures, luts + blockIdx.y * u64(stride), stage);                                    \
    }
// The only LUT of a picture in 128 KiB of shared memory, on GPUs that have as much.
#define GLOBAL16_SHARED(NAME, CHANNELS)                                                                                      \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        batch_map16_shared_##NAME(Pictures pictures, const u16* luts, u32 stride) {                                          \
        extern __shared__ uint4 lut[];                                                                                       \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        share(luts + blockIdx.y * u64(stride), lut, 65536 * sizeof(u16) / sizeof(uint4));                                    \
        map16<CHANNELS, false, CHANNELS == 3 ? 1 : 3>(pictures, reinterpret_cast<const u16*>(lut), stage);                   \
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
