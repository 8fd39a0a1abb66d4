// CLAHE of one plane, depth 16: the LUTs of its tiles.

#pragma once
#include "clahe.cuh"

// Makes the LUTs of tiles, one after the other, by a block of 1024 threads. The first `capacity` levels (a multiple of 8) are counted in
// shared memory; what does not fit there is added to this block's own 65536 counts in `spill`, which are zero before and after.
struct TileLuts16 {
    u32 capacity;
    u32* spill;

    // Makes one LUT. What is clipped is spread over `spread` levels from `spread_from` on. `levels`: a multiple of 4096; from there on, none
    // occurs in the plane, and has an entry.
    __device__ __forceinline__ void make(const u16* plane, const Tiling& t, u32 order, u32 tile, u32 spread_from, u32 spread, u32 levels,
                                         u16* lut) const {
        const u32 bins_a_warp = levels / WARP;
        extern __shared__ u32 tile_words[];
        __shared__ u32 scratch[WARP];
        u32* more = spill;
        const HalfCounters counters = {tile_words, 0, min(capacity, levels), more};
        const u32 lane = threadIdx.x % WARP;
        const u32 from = threadIdx.x / WARP * bins_a_warp + 4 * lane, end = from - 4 * lane + bins_a_warp;
        const u32 rows_at_once = max(HalfCounters::BETWEEN / t.tile_width, 1u);
        bool spilled = false;
        counters.clear();
        for (u32 row = 0; row < t.tile_height; row += rows_at_once) {
            visit_tile(plane, t, tile, row, min(row + rows_at_once, t.tile_height), [&](u32 level) {
                if (level < counters.range && t.tile_width <= HalfCounters::BETWEEN) {
                    counters.add(level, 1);
                } else {
                    atomicAdd(more + level, 1);
                    spilled = true;
                }
            }, order);
            if (row + rows_at_once < t.tile_height) spilled |= counters.settle();
        }
        __threadfence_block();
        spilled = __syncthreads_or(spilled);

        // Each warp owns consecutive levels, of which a lane takes four at a time. Three passes: excess, the warp's sum, running sum.
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
            *reinterpret_cast<uint2*>(lut + bin) =
                make_uint2(tile_level(a, t.lut_scale, 65535) | tile_level(b, t.lut_scale, 65535) << 16,
                           tile_level(c, t.lut_scale, 65535) | tile_level(here, t.lut_scale, 65535) << 16);
            running = __shfl_sync(FULL_WARP, here, WARP - 1);
            if (spilled) *reinterpret_cast<uint4*>(more + bin) = make_uint4(0, 0, 0, 0);
        }
        __threadfence_block();
        __syncthreads();
    }
};
