// CLAHE, depth 16.

#include "clahe.cuh"

// Makes one LUT per tile; a block takes tile after tile. The first `capacity` levels (a multiple of 8) are counted in shared memory; what
// does not fit there is added to this block's own 65536 counts in `spill`, which are zero before and after. What is clipped is spread over
// `spread` levels from `spread_from` on.
extern "C" __global__ void __launch_bounds__(1024)
    clahe_tiles16(const u16* plane, Tiling t, u32 order, u32 spread_from, u32 spread, u32 capacity, u32* spill, u16* luts) {
    constexpr u32 BINS_A_WARP = 65536 / WARP;
    extern __shared__ u32 tile_words[];
    __shared__ u32 scratch[WARP];
    u32* more = spill + 65536ull * blockIdx.x;
    const HalfCounters counters = {tile_words, 0, capacity, more};
    const u32 lane = threadIdx.x % WARP;
    const u32 from = threadIdx.x / WARP * BINS_A_WARP + 4 * lane, end = from - 4 * lane + BINS_A_WARP;
    const u32 rows_at_once = max(HalfCounters::BETWEEN / t.tile_width, 1u);
    for (u32 tile = blockIdx.x; tile < t.tiles_x * t.tiles_y; tile += gridDim.x) {
        bool spilled = false;
        counters.clear();
        for (u32 row = 0; row < t.tile_height; row += rows_at_once) {
            visit_tile(plane, t, tile, row, min(row + rows_at_once, t.tile_height), [&](u32 level) {
                if (level < capacity && t.tile_width <= HalfCounters::BETWEEN) {
                    counters.add(level, 1);
                } else {
                    atomicAdd(more + level, 1);
                    spilled = true;
                }
            }, order);
            spilled |= counters.settle();
        }
        __threadfence_block();
        spilled = __syncthreads_or(spilled);

        // Each warp owns 2048 consecutive levels, of which a lane takes four at a time. Three passes: excess, the warp's sum, running sum.
        auto counted = [=](u32 bin) {
            uint4 n = counters.counts(bin);
            if (spilled) {
                const uint4 m = __ldcg(reinterpret_cast<const uint4*>(more + bin));
                n = make_uint4(n.x + m.x, n.y + m.y, n.z + m.z, n.w + m.w);
            }
            return n;
        };
        const u32 clip = t.clip ? t.clip : ~0u;
        u32 excess = 0;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = counted(bin);
            excess += max(n.x, clip) + max(n.y, clip) + max(n.z, clip) + max(n.w, clip) - 4 * clip;
        }
        const Redistribution share(t.clip, block_sum(excess, scratch), spread);
        auto with_share = [=](u32 bin, u32 count) {
            const u32 place = bin - spread_from;
            return place < spread ? share.count(place, count) : min(count, clip);
        };
        auto shared_out = [=](u32 bin) {
            const uint4 n = counted(bin);
            return make_uint4(with_share(bin, n.x), with_share(bin + 1, n.y), with_share(bin + 2, n.z), with_share(bin + 3, n.w));
        };
        u32 sum = 0;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = shared_out(bin);
            sum += n.x + n.y + n.z + n.w;
        }
        sum = warp_sum(sum);
        u32 running = __shfl_sync(FULL_WARP, block_scan(lane == 0 ? sum : 0, scratch), 0) - sum;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = shared_out(bin);
            const u32 here = running + warp_scan(n.x + n.y + n.z + n.w);
            const u32 c = here - n.w, b = c - n.z, a = b - n.y;
            *reinterpret_cast<uint2*>(luts + 65536ull * tile + bin) =
                make_uint2(tile_level(a, t.lut_scale, 65535) | tile_level(b, t.lut_scale, 65535) << 16,
                           tile_level(c, t.lut_scale, 65535) | tile_level(here, t.lut_scale, 65535) << 16);
            running = __shfl_sync(FULL_WARP, here, WARP - 1);
            if (spilled) *reinterpret_cast<uint4*>(more + bin) = make_uint4(0, 0, 0, 0);
        }
        __threadfence_block();
        __syncthreads();
    }
}

// Maps levels by a table that holds a cell's four LUTs side by side: one access instead of four that are far apart.
struct CellTables16 {
    const uint2* tables;

    __device__ __forceinline__ u32 level(const Tiling& t, const Between& x, const Between& y, u32 level) const {
        const uint2 e = __ldg(tables + (u64(y.cell) * (t.tiles_x + 1) + x.cell) * 65536 + level);
        return rounded(between(__uint2float_rn(e.x & 0xffff), __uint2float_rn(e.x >> 16), __uint2float_rn(e.y & 0xffff),
                               __uint2float_rn(e.y >> 16), x.a, x.b, y.a, y.b));
    }
};

// Lays the LUTs of each cell side by side. Grid: x = 32 blocks of 1024 threads, two levels per thread; y = cells in a row; z = rows of
// cells.
extern "C" __global__ void __launch_bounds__(1024) clahe_tables16(Tiling t, const u16* luts, uint4* tables) {
    const u32 x = blockIdx.y, y = blockIdx.z, pair = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 x1 = max(x, 1u) - 1, x2 = min(x, t.tiles_x - 1);
    const u64 upper = u64(max(y, 1u) - 1) * t.tiles_x, lower = u64(min(y, t.tiles_y - 1)) * t.tiles_x;
    const u32* pairs = reinterpret_cast<const u32*>(luts) + pair;
    const u32 l00 = pairs[(upper + x1) * 32768], l01 = pairs[(upper + x2) * 32768];
    const u32 l10 = pairs[(lower + x1) * 32768], l11 = pairs[(lower + x2) * 32768];
    tables[(u64(y) * (t.tiles_x + 1) + x) * 32768 + pair] =
        make_uint4(__byte_perm(l00, l01, 0x5410), __byte_perm(l10, l11, 0x5410), __byte_perm(l00, l01, 0x7632), __byte_perm(l10, l11, 0x7632));
}

extern "C" __global__ void __launch_bounds__(256, 8) clahe_direct16(u16* plane, Tiling t, ByteOrders orders, const u16* luts) {
    interpolate(plane, t, TileLuts<u16>{luts}, orders);
}
extern "C" __global__ void __launch_bounds__(256) clahe_cells16(u16* plane, Tiling t, ByteOrders orders, const uint2* tables) {
    interpolate(plane, t, CellTables16{tables}, orders);
}
