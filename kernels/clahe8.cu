// CLAHE of planes, depth 8. In `histograms`, `arrived` and `luts`, the data of one picture follow
// those of another.

#include "batch.cuh"
#include "clahe.cuh"

// Makes one LUT per tile. Grid: x = tiles * parts; the blocks of a tile share its rows, and the
// last to finish makes the LUT; y = pictures. `histograms` (256 counts per tile) and `arrived` (one
// per tile) are zero before and after, and needed only if there are several parts.
extern "C" __global__ void __launch_bounds__(512)
    tiles8(Pictures pictures, Tiling t, u32 parts, u32* histograms, u32* arrived, u8* luts) {
    __shared__ uint4 words[256 * 32 / 4];
    __shared__ u32 scratch[WARP];
    const Copies8 copies(words, 1, 32);
    const SharedWords counters = copies.plane(0);
    copies.clear();
    const u32 tile = blockIdx.x / parts, part = blockIdx.x % parts;
    visit_tile(pictures.source<u8>(blockIdx.y), t, tile, u32(u64(t.tile_height) * part / parts), u32(u64(t.tile_height) * (part + 1) / parts),
               threadIdx.x, blockDim.x, [counters](u32 level) { counters.add_one(level); });
    __syncthreads();

    const u32 bin = threadIdx.x;
    const u64 place = u64(blockIdx.y) * t.tiles_x * t.tiles_y + tile;
    u32* histogram = histograms + 256 * place;
    u32 n = bin < 256 ? copies.count(bin) : 0;
    if (parts > 1) {
        if (n) atomicAdd(histogram + bin, n);
        if (!last_of(parts, arrived + place)) return;
        if (bin < 256) n = __ldcg(histogram + bin), histogram[bin] = 0;
    }
    const u32 kept = t.clip ? min(n, t.clip) : n;
    const Redistribution share(block_sum(n - kept, scratch), 0, 256);
    const u32 running = block_scan(kept, scratch);
    u32 level = tile_level(running + share.through(bin), t.lut_scale, 255);
    if (t.full_span) {
        const bool spans = t.spans(block_scan(n, scratch));
        level = weakened(bin, level, t.strength_of(block_sum(u32(spans), scratch)));
    }
    if (bin < 256) luts[256 * place + bin] = u8(level);
}

// The same for small tiles: each warp makes one, without waiting for others. Grid: x = as many
// blocks of 256 threads as tiles take, y = pictures.
extern "C" __global__ void __launch_bounds__(256) small_tiles8(Pictures pictures, Tiling t, u8* luts) {
    constexpr u32 COPIES = 4;
    __shared__ uint4 words[256 / WARP][256];
    const u32 lane = threadIdx.x % WARP, tiles = t.tiles_x * t.tiles_y, tile = blockIdx.x * (256 / WARP) + threadIdx.x / WARP;
    if (tile >= tiles) return;
    uint4* mine = words[threadIdx.x / WARP];
#pragma unroll
    for (u32 bin = lane; bin < 256; bin += WARP) mine[bin] = make_uint4(0, 0, 0, 0);
    __syncwarp();
    const SharedWords counters(reinterpret_cast<u32*>(mine) + lane % COPIES, COPIES * 4);
    visit_tile(pictures.source<u8>(blockIdx.y), t, tile, 0, t.tile_height, lane, WARP, [counters](u32 level) { counters.add_one(level); });
    __syncwarp();
    u32 kept[256 / WARP], excess = 0, counted = 0, span = 0;
#pragma unroll
    for (u32 i = 0; i < 256 / WARP; ++i) {
        const uint4 some = mine[i * WARP + lane];
        const u32 n = some.x + some.y + some.z + some.w;
        kept[i] = t.clip ? min(n, t.clip) : n, excess += n - kept[i];
        if (t.full_span) {
            const u32 here = counted + warp_scan(n);
            counted = __shfl_sync(FULL_WARP, here, WARP - 1);
            span += t.spans(here);
        }
    }
    const u32 strength = t.full_span ? t.strength_of(warp_sum(span)) : FULL_STRENGTH;
    const Redistribution share(warp_sum(excess), 0, 256);
    luts += 256 * (u64(blockIdx.y) * tiles + tile);
    u32 running = 0;
#pragma unroll
    for (u32 i = 0; i < 256 / WARP; ++i) {
        const u32 bin = i * WARP + lane, here = running + warp_scan(kept[i]);
        running = __shfl_sync(FULL_WARP, here, WARP - 1);
        luts[bin] = u8(weakened(bin, tile_level(here + share.through(bin), t.lut_scale, 255), strength));
    }
}

// The new levels of each level in a cell's four tiles, a byte each, in copies interleaved by lane,
// which makes fewer lanes access the same bank.
struct Entries8 {
    static constexpr bool WHOLE = true;
    static constexpr u32 COPIES = 8;
    static constexpr u32 WORDS = 256 * COPIES;

    u32* words;
    u32 copy;  // the place of this lane's copy, in bytes

    __device__ __forceinline__ explicit Entries8(u32* words) : words(words), copy(threadIdx.x % COPIES * 4) {}
    __device__ __forceinline__ bool has(u32) const { return true; }
    __device__ __forceinline__ void set(u32 level, u32 word) const {
#pragma unroll
        for (u32 i = 0; i < COPIES / 4; ++i) {
            reinterpret_cast<uint4*>(words)[level * (COPIES / 4) + i] = make_uint4(word, word, word, word);
        }
    }
    __device__ __forceinline__ u32 level(u32 old, const ColumnWeights& x, float ya, float yb) const {
        u32 at;
        asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(old), "n"(COPIES * 4), "r"(copy));
        const u32 word = *reinterpret_cast<const u32*>(reinterpret_cast<const u8*>(words) + at);
        return x.between(wide<u8>(word, 0), wide<u8>(word, 1), wide<u8>(word, 2), wide<u8>(word, 3), ya, yb);
    }
};

// Maps cell after cell, for tiles that are not small. Block: x = 32, y = 8. Grid: x = cells *
// bands, y = pictures.
extern "C" __global__ void __launch_bounds__(256, 4) cells8(Pictures pictures, Tiling t, const u8* luts, u32 bands, u32 strength) {
    __shared__ __align__(16) u32 words[Entries8::WORDS];
    const Entries8 table(words);
    const Cell cell(t, blockIdx.x, bands);
    const u32 level = threadIdx.y * WARP + threadIdx.x;
    luts += u64(blockIdx.y) * t.tiles_x * t.tiles_y * 256 + level;
    table.set(level, luts[u64(cell.tile[0]) * 256] | luts[u64(cell.tile[1]) * 256] << 8 | luts[u64(cell.tile[2]) * 256] << 16 |
                         luts[u64(cell.tile[3]) * 256] << 24);
    __syncthreads();
    const u8* from = pictures.source<u8>(blockIdx.y);
    u8* to = pictures.target<u8>(blockIdx.y);
    if (strength == FULL_STRENGTH) {
        map_cell<false>(from, to, ByteOrders{}, t, cell, table, strength);
    } else {
        map_cell<true>(from, to, ByteOrders{}, t, cell, table, strength);
    }
}

// Grid: as for `interpolate`, z = pictures.
extern "C" __global__ void __launch_bounds__(256) direct8(Pictures pictures, Tiling t, const u8* luts, u32 strength) {
    luts += u64(blockIdx.z) * t.tiles_x * t.tiles_y * 256;
    interpolate(pictures.source<u8>(blockIdx.z), pictures.target<u8>(blockIdx.z), ByteOrders{}, t, luts, strength);
}
