// Global equalization, depth 8, in two kernels, so that a picture may come in chunks. Blocks: `block_threads` at most, whole warps.

#include "counting.cuh"
#include "levels.cuh"

// The number of packs at the end of a gray plane that should stay in the L2 cache until they go through the LUT: for each of the few planes
// that are processed together (less what the grid takes in one round), and for a large plane. The cache of an H100 holds 50 MB, including
// results that wait to be written back.
constexpr u64 KEPT_OF_SEVERAL = (u64(10) << 20) / Pack<u8, 1>::BYTES;
constexpr u64 KEPT_OF_LARGE = (u64(24) << 20) / Pack<u8, 1>::BYTES;

__device__ __forceinline__ void clear_next(u32* next) {
    if (next == nullptr || blockIdx.x) return;
    for (u32 i = threadIdx.x; i < 3 * 256; i += blockDim.x) next[i] = 0;
}

// Each block, of at least 256 threads, computes the LUTs itself, which takes no longer than reading them.
template <int PLANES> __device__ __forceinline__ void make_luts(const u32* histograms, u32 strength, u8* luts) {
#pragma unroll 1
    for (u32 plane = 0; plane < PLANES * 256; plane += 256) {
        const u32 i = threadIdx.x;
        const u32 level = equalized_level8(i < 256 ? histograms[plane + i] : 0, strength);
        if (i < 256) luts[plane + i] = u8(level);
    }
    __syncthreads();
}

// Adds to the counts in `histograms`. `next`: null, or the histograms of the next picture, which are zeroed.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void histogram8(const u8* pixels, u64 count, u32* histograms, u32* next) {
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
        ahead.load(pixels, i + stride, packs, CHANNELS == 1 && i + KEPT_OF_SEVERAL < packs);
        here.in_order(stage);
        if (i < packs) counters.add(here);
    }
    counters.add_singles(pixels, packs * P::PIXELS, count);
    counters.add_to(histograms);
    clear_next(next);
}

// Sends a raw pack through the LUTs; returns it raw.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ Pack<u8, CHANNELS> mapped(Pack<u8, CHANNELS> pack, const u8* luts, uint4* stage) {
    pack.in_order(stage);
    pack = map_pack<CHANNELS, BY_CHANNEL, u8>(pack, luts);
    pack.in_lines(stage);
    return pack;
}

// Sends the pixels from `from` on, which are not in packs, through the LUTs, over the whole grid.
template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void map_singles(u8* pixels, u64 from, u64 count, const u8* luts) {
    for (u64 i = from + thread_of_grid(); i < count; i += threads_of_grid()) {
        map_single<CHANNELS, BY_CHANNEL>(pixels + i * CHANNELS, pixels + i * CHANNELS, luts);
    }
}

// Sends pixels through the LUTs, from the end to the beginning: the histogram has read the end last, so that is what the L2 cache still holds. Each
// block computes the LUTs while its first packs are being loaded.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void apply8(u8* pixels, u64 count, const u32* histograms, u32 strength) {
    typedef Pack<u8, CHANNELS> P;
    constexpr int PLANES = BY_CHANNEL ? 3 : 1;
    __shared__ u8 luts[PLANES * 256];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const u64 packs = whole_packs<u8, CHANNELS>(pixels, count), rounds = rounds_of_grid(packs);
    const u64 before = rounds ? rounds - 1 : 0, last = before * threads_of_grid() + thread_of_grid();
    P first;
    first.load(pixels, last, packs, true);
    make_luts<PLANES>(histograms, strength, luts);
    mapped<CHANNELS, BY_CHANNEL>(first, luts, stage).store(pixels, last, packs);
    map_singles<CHANNELS, BY_CHANNEL>(pixels, packs * P::PIXELS, count, luts);
    for (u64 round = before; round > 0; --round) {
        const u64 i = (round - 1) * threads_of_grid() + thread_of_grid();
        P here;
        here.load(pixels, i, packs, true);
        mapped<CHANNELS, BY_CHANNEL>(here, luts, stage).store(pixels, i, packs);
    }
}

// Large gray planes. Blocks with a fixed share each would not finish together, since some multiprocessors get at memory faster than others;
// so each block takes another tile whenever it is free. A plane of a few megabytes has too few tiles for that.

// Hands out tiles to the blocks of a grid. Each block begins with the tile of its own index. `handed_out`: 0 before and after the launch.
struct Tiles {
    u32* handed_out;
    u32 count;
    u32* box;  // two words of shared memory
    u32 side;

    // Asks for the block's next tile. Every block asks once at the start and again for each tile it gets, so the last request is known.
    __device__ __forceinline__ void ask() {
        if (threadIdx.x) return;
        const u32 before = atomicAdd(handed_out, 1);
        if (before == max(count, gridDim.x) - 1) *handed_out = 0;
        box[side] = gridDim.x + before;
    }
    // Returns the tile asked for, or one that does not exist if there are none left. Called by all threads of the block.
    __device__ __forceinline__ u32 take() {
        __syncthreads();
        const u32 tile = box[side];
        side ^= 1;
        if (tile < count) ask();
        return tile;
    }
};

// A tile: two packs for each thread of a block.
struct Tile {
    typedef Pack<u8, 1> P;
    static constexpr int PACKS = 2;
    P pack[PACKS];

    __device__ __forceinline__ static u32 count(u64 packs) { return u32((packs + PACKS * blockDim.x - 1) / (PACKS * blockDim.x)); }
    // Returns the index of this thread's pack `k`.
    __device__ __forceinline__ static u64 place(u32 tile, int k) { return (u64(tile) * PACKS + k) * blockDim.x + threadIdx.x; }
    __device__ __forceinline__ void load(const u8* pixels, u32 tile, u64 packs, bool once) {
#pragma unroll
        for (int k = 0; k < PACKS; ++k) pack[k].load(pixels, place(tile, k), packs, once);
    }
};

extern "C" __global__ void __launch_bounds__(1024, 2)
    histogram8_large(const u8* pixels, u64 count, u32* histogram, u32* next, u32* handed_out) {
    typedef Counters8<1, false> Counters;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ u32 box[2];
    const Counters counters = {words};
    const u64 packs = whole_packs<u8, 1>(pixels, count);
    Tiles tiles = {handed_out, Tile::count(packs), box, 0};
    tiles.ask();
    counters.clear();
    for (u32 i = blockIdx.x; i < tiles.count; i = tiles.take()) {
        Tile tile;
        tile.load(pixels, i, packs, Tile::place(i, 0) + KEPT_OF_LARGE < packs);
#pragma unroll
        for (int k = 0; k < Tile::PACKS; ++k) {
            if (Tile::place(i, k) < packs) counters.add(tile.pack[k]);
        }
    }
    counters.add_singles(pixels, packs * Tile::P::PIXELS, count);
    counters.add_to(histogram);
    clear_next(next);
}

// From the last tile to the first, like `apply8`.
extern "C" __global__ void __launch_bounds__(1024, 1)
    apply8_large(u8* pixels, u64 count, const u32* histogram, u32 strength, u32* handed_out) {
    __shared__ u8 lut[256];
    __shared__ u32 box[2];
    const u64 packs = whole_packs<u8, 1>(pixels, count);
    Tiles tiles = {handed_out, Tile::count(packs), box, 0};
    tiles.ask();
    u32 i = blockIdx.x;
    Tile tile;
    if (i < tiles.count) tile.load(pixels, tiles.count - 1 - i, packs, true);
    make_luts<1>(histogram, strength, lut);
    while (i < tiles.count) {
#pragma unroll
        for (int k = 0; k < Tile::PACKS; ++k) {
            const u64 place = Tile::place(tiles.count - 1 - i, k);
            mapped<1, false>(tile.pack[k], lut, nullptr).store(pixels, place, packs);
        }
        i = tiles.take();
        if (i < tiles.count) tile.load(pixels, tiles.count - 1 - i, packs, true);
    }
    map_singles<1, false>(pixels, packs * Tile::P::PIXELS, count, lut);
}

#define GLOBAL8(NAME, CHANNELS, BY_CHANNEL)                                                                                  \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        histogram8_##NAME(const u8* pixels, u64 count, u32* histograms, u32* next) {                                         \
        histogram8<CHANNELS, BY_CHANNEL>(pixels, count, histograms, next);                                                   \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>(), 1024 / block_threads<CHANNELS>())                \
        apply8_##NAME(u8* pixels, u64 count, const u32* histograms, u32 strength) {                                          \
        apply8<CHANNELS, BY_CHANNEL>(pixels, count, histograms, strength);                                                   \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
