// CLAHE of planes, depth 16. In `luts` and `steep`, the data of one picture follow those of
// another.

#include "batch.cuh"
#include "clahe.cuh"

// The clipping of a picture's tiles, and the levels that occur in it.
struct Clipping {
    u32 clip, spread_from, spread;
    u32 lowest, highest;
    // Whether ranks stand for the LUTs: the clip limit is one sample per level, and tiles have
    // fewer than 2^16 pixels.
    u32 ranked;
};

// A bit for each level, set if it occurs.
struct LevelBits {
    static constexpr u32 WORDS = 65536 / 32;
    u32* words;

    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < WORDS; i += blockDim.x) words[i] = 0;
        __syncthreads();
    }
    __device__ __forceinline__ void mark(u32 level) const {
        const u32 bit = 1u << level % 32;
        if ((*reinterpret_cast<volatile u32*>(words + level / 32) & bit) == 0) atomicOr(words + level / 32, bit);
    }
};

// Finds the levels that occur in each picture, and the clipping that follows: `clip`, over all
// `levels`, or if that is `AUTO` one that depends on the levels (see `Clipping::of_levels` in
// `crates/equalize/src/clip.rs`). `may_rank` is whether ranks may stand for LUTs. Grid: x = blocks
// that share a picture, y = pictures. `occurs` has 2048 words of bits for each picture, and
// `arrived` has one; both are zero before.
constexpr u32 AUTO = ~0u;
extern "C" __global__ void __launch_bounds__(1024)
    clippings16(Pictures pictures, u32 clip, u32 levels, u64 area, u32 may_rank, u32* occurs, u32* arrived, Clipping* clippings) {
    typedef Pack<u16, 1> P;
    __shared__ u32 words[LevelBits::WORDS];
    __shared__ u32 scratch[WARP];
    __shared__ u32 ends[2];
    const LevelBits bits = {words};
    if (threadIdx.x == 0) ends[0] = 65535, ends[1] = 0;
    bits.clear();
    const u16* pixels = pictures.source<u16>(blockIdx.y);
    const Run<u16, 1> run(pixels, pixels, pictures.pixels);
    const u64 step = threads_of_grid();
    for (u64 i = thread_of_grid(); i < run.packs; i += 2 * step) {
        P here[2];
        here[0].load(pixels + run.head, i, run.packs);
        here[1].load(pixels + run.head, i + step, run.packs);
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            if (i + k * step >= run.packs) break;
            here[k].in_order(nullptr, pictures.orders.from);
#pragma unroll
            for (int p = 0; p < P::PIXELS; ++p) bits.mark(here[k].get(p));
        }
    }
    for (u64 k = thread_of_grid(); k < run.singles(); k += step) bits.mark(converted<u16>(pixels[run.single(k)], pictures.orders.from));
    __syncthreads();
    u32* all = occurs + blockIdx.y * LevelBits::WORDS;
    for (u32 i = threadIdx.x; i < LevelBits::WORDS; i += blockDim.x) {
        if (words[i] & ~__ldcg(all + i)) atomicOr(all + i, words[i]);
    }
    if (!last_of(gridDim.x, arrived + blockIdx.y)) return;
    u32 number = 0;
    for (u32 i = threadIdx.x; i < LevelBits::WORDS; i += blockDim.x) {
        const u32 word = __ldcg(all + i);
        if (word == 0) continue;
        number += __popc(word);
        atomicMin(ends, i * 32 + __ffs(word) - 1);
        atomicMax(ends + 1, i * 32 + 31 - __clz(word));
    }
    number = block_sum(number, scratch);
    if (threadIdx.x) return;
    Clipping c = {clip, 0, levels, ends[0], ends[1], 0};
    if (clip == AUTO) {
        c.clip = u32(min(max(2 * area / max(number, 256u), u64(1)), u64(~0u)));
        c.spread_from = c.lowest + 1, c.spread = c.highest - c.lowest;
    }
    c.ranked = may_rank && c.clip == 1 && c.spread;
    clippings[blockIdx.y] = c;
}

// Makes the LUTs of tiles, one after the other, by a block of 1024 threads. The first `capacity`
// levels (a multiple of 8) are counted in shared memory; the others are added to this block's own
// 65536 counts in `spill`, which are zero before and after.
struct TileLuts16 {
    u32 capacity;
    u32* spill;

    // Makes one LUT. Levels from `levels`, a multiple of 4096, on do not occur in the plane and
    // have no entry. Returns whether the LUT is steep: whether it rises by 64 or more within 16
    // levels, starting at a multiple of 16.
    __device__ __forceinline__ bool make(const u16* plane, const Tiling& t, u32 order, u32 tile, const Clipping& c, u32 levels, u16* lut) const {
        const u32 bins_a_warp = levels / WARP;
        extern __shared__ u32 tile_words[];
        __shared__ u32 scratch[WARP];
        u32* more = spill;
        const HalfCounters counters = {tile_words, 0, min(capacity, levels), more};
        const u32 lane = threadIdx.x % WARP;
        const u32 from = threadIdx.x / WARP * bins_a_warp + 4 * lane, end = from - 4 * lane + bins_a_warp;
        const u32 rows_at_once = max(HalfCounters::BETWEEN / t.tile_width, 1u);
        const u32 counted_here = t.tile_width <= HalfCounters::BETWEEN ? counters.range : 0;
        bool spilled = false;
        counters.clear();
        for (u32 row = 0; row < t.tile_height; row += rows_at_once) {
            visit_tile(plane, t, tile, row, min(row + rows_at_once, t.tile_height), threadIdx.x, blockDim.x, [&](u32 level) {
                if (level < counted_here) {
                    counters.add_within(level, 1);
                } else {
                    atomicAdd(more + level, 1);
                    spilled = true;
                }
            }, order);
            if (row + rows_at_once < t.tile_height) spilled |= counters.settle();
        }
        __threadfence_block();
        spilled = __syncthreads_or(spilled);

        // Each warp owns consecutive levels; a lane takes four of them at a time.
        const u32 clip = c.clip ? c.clip : ~0u;
        auto counted = [=](u32 bin) {
            uint4 n = counters.counts(bin);
            if (spilled) {
                const uint4 m = __ldcg(reinterpret_cast<const uint4*>(more + bin));
                n = make_uint4(n.x + m.x, n.y + m.y, n.z + m.z, n.w + m.w);
            }
            return n;
        };
        auto kept = [=](u32 bin) {
            const uint4 n = counted(bin);
            return make_uint4(min(n.x, clip), min(n.y, clip), min(n.z, clip), min(n.w, clip));
        };
        u32 strength = FULL_STRENGTH;
        if (t.full_span) {
            u32 own = 0, span = 0;
            for (u32 bin = from; bin < end; bin += 4 * WARP) {
                const uint4 n = counted(bin);
                own += n.x + n.y + n.z + n.w;
            }
            own = warp_sum(own);
            u32 before = __shfl_sync(FULL_WARP, block_scan(lane == 0 ? own : 0, scratch), 0) - own;
            for (u32 bin = from; bin < end; bin += 4 * WARP) {
                const uint4 n = counted(bin);
                const u32 here = before + warp_scan(n.x + n.y + n.z + n.w);
                before = __shfl_sync(FULL_WARP, here, WARP - 1);
                span += t.spans(here - n.w - n.z - n.y) + t.spans(here - n.w - n.z) + t.spans(here - n.w) + t.spans(here);
            }
            strength = t.strength_of(block_sum(span, scratch));
        }
        u32 sum = 0;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = kept(bin);
            sum += n.x + n.y + n.z + n.w;
        }
        sum = warp_sum(sum);
        const u32 all = block_sum(lane == 0 ? sum : 0, scratch);
        u32 running = __shfl_sync(FULL_WARP, block_scan(lane == 0 ? sum : 0, scratch), 0) - sum;
        const Redistribution share(t.tile_width * t.tile_height - all, c.spread_from, c.spread);
        bool steep = false;
        for (u32 bin = from; bin < end; bin += 4 * WARP) {
            const uint4 n = kept(bin);
            const u32 here = running + warp_scan(n.x + n.y + n.z + n.w);
            running = __shfl_sync(FULL_WARP, here, WARP - 1);
            const u32 c2 = here - n.w, c1 = c2 - n.z, c0 = c1 - n.y;
            auto level = [=](u32 bin, u32 running) {
                return weakened(bin, tile_level(running + share.through(bin), t.lut_scale, 65535), strength);
            };
            const u32 l0 = level(bin, c0), l1 = level(bin + 1, c1), l2 = level(bin + 2, c2), l3 = level(bin + 3, here);
            *reinterpret_cast<uint2*>(lut + bin) = make_uint2(l0 | l1 << 16, l2 | l3 << 16);
            steep |= l3 - __shfl_sync(FULL_WARP, l0, lane & ~3u) > 63;
            if (spilled) *reinterpret_cast<uint4*>(more + bin) = make_uint4(0, 0, 0, 0);
        }
        __threadfence_block();
        return __syncthreads_or(steep);
    }
};

// Makes one LUT per tile of each picture, unless ranks stand for them, and records which are steep.
// A picture of one level, for which the clipping is empty, keeps it. Grid: x = blocks that take
// tile after tile.
extern "C" __global__ void __launch_bounds__(1024)
    tiles16(Pictures pictures, u32 number, Tiling t, const Clipping* clippings, u32 capacity, u32* spill, u16* luts, u32* steep) {
    const TileLuts16 of_block = {capacity, spill + 65536ull * blockIdx.x};
    const u32 tiles = t.tiles_x * t.tiles_y;
    for (u32 i = blockIdx.x; i < tiles * number; i += gridDim.x) {
        const Clipping c = clippings[i / tiles];
        if (c.ranked) continue;
        u16* lut = luts + 65536ull * i;
        bool is_steep = false;
        if (c.spread) {
            is_steep = of_block.make(pictures.source<u16>(i / tiles), t, pictures.orders.from, i % tiles, c, (c.highest / 4096 + 1) * 4096, lut);
        } else if (threadIdx.x == 0) {
            lut[c.lowest] = u16(c.lowest);
        }
        if (threadIdx.x == 0) steep[i] = is_steep;
    }
}

// Where each level counts as one at most, the sum of the counts up to a level is its rank among the
// levels that occur. In place of a LUT there is a word for each 16 levels: bits of those that
// occur, and in the upper half the number of levels that occur below.

// Makes the ranks of each tile, at the beginning of the place of its LUT. Grid: x = tiles, y =
// pictures. Block: 256.
extern "C" __global__ void __launch_bounds__(256) ranks16(Pictures pictures, Tiling t, const Clipping* clippings, u16* luts) {
    constexpr u32 EACH = LevelBits::WORDS / 256;
    __shared__ __align__(16) u32 words[LevelBits::WORDS];
    __shared__ u32 scratch[WARP];
    const LevelBits bits = {words};
    bits.clear();
    if (!clippings[blockIdx.y].ranked) return;
    visit_tile(pictures.source<u16>(blockIdx.y), t, blockIdx.x, 0, t.tile_height, threadIdx.x, blockDim.x,
               [bits](u32 level) { bits.mark(level); }, pictures.orders.from);
    __syncthreads();
    u32 word[EACH], sum = 0;
#pragma unroll
    for (u32 k = 0; k < EACH; ++k) word[k] = words[threadIdx.x * EACH + k], sum += __popc(word[k]);
    u32 below = block_scan(sum, scratch) - sum;
    uint4* to = reinterpret_cast<uint4*>(luts + 65536 * (u64(blockIdx.y) * gridDim.x + blockIdx.x)) + threadIdx.x * (EACH / 2);
    auto ranked = [&](u32 bits) {
        const u32 word = bits | below << 16;
        below += __popc(bits);
        return word;
    };
#pragma unroll
    for (u32 k = 0; k < EACH; k += 2) {
        uint4 four;
        four.x = ranked(word[k] & 0xffff), four.y = ranked(word[k] >> 16);
        four.z = ranked(word[k + 1] & 0xffff), four.w = ranked(word[k + 1] >> 16);
        to[k / 2] = four;
    }
}

// The ranks of a cell's four tiles, interleaved, from word `first` on.
struct Ranks16 {
    static constexpr bool WHOLE = true;
    const uint4* words;
    u32 first;
    float scale;
    Redistribution share[4];

    __device__ __forceinline__ bool has(u32) const { return true; }
    __device__ __forceinline__ u32 level(u32 old, const ColumnWeights& x, float ya, float yb) const {
        const uint4 ranks = words[old / 16 - first];
        const u32 up_to = (2u << old % 16) - 1;
        // As `tile_level`: adding 2^23 rounds.
        auto of = [&](u32 word, int k) {
            const u32 count = (word >> 16) + __popc(word & up_to) + share[k].through(old);
            return fminf(__fadd_rn(__fmul_rn(__uint2float_rn(count), scale), 8388608.0f), 8388608.0f + 65535.0f);
        };
        return x.between(of(ranks.x, 0), of(ranks.y, 1), of(ranks.z, 2), of(ranks.w, 3), ya, yb);
    }
};

// Maps cell after cell by ranks. Block: x = 32, y = 8. Grid: x = cells, y = pictures. Shared
// memory: 64 KiB.
extern "C" __global__ void __launch_bounds__(256, 3)
    rank_cells16(Pictures pictures, Tiling t, const Clipping* clippings, const u16* luts, u32 strength) {
    extern __shared__ uint4 rank_words[];
    const Cell cell(t, blockIdx.x, 1);
    const Clipping c = clippings[blockIdx.y];
    if (!c.ranked) return;
    luts += 65536 * u64(blockIdx.y) * t.tiles_x * t.tiles_y;
    const u32* from[4];
    Ranks16 table;
    table.words = rank_words, table.first = c.lowest / 64 * 4, table.scale = t.lut_scale;
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        from[k] = reinterpret_cast<const u32*>(luts + 65536ull * cell.tile[k]);
        const u32 last = from[k][c.highest / 16], counted = (last >> 16) + __popc(last & 0xffff);
        table.share[k] = Redistribution(t.tile_width * t.tile_height - counted, c.spread_from, c.spread);
    }
    for (u32 i = c.lowest / 64 + threadIdx.y * WARP + threadIdx.x; i <= c.highest / 64; i += WARP * blockDim.y) {
        uint4 some[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) some[k] = reinterpret_cast<const uint4*>(from[k])[i];
        uint4* to = rank_words + 4 * i - table.first;
        to[0] = make_uint4(some[0].x, some[1].x, some[2].x, some[3].x);
        to[1] = make_uint4(some[0].y, some[1].y, some[2].y, some[3].y);
        to[2] = make_uint4(some[0].z, some[1].z, some[2].z, some[3].z);
        to[3] = make_uint4(some[0].w, some[1].w, some[2].w, some[3].w);
    }
    __syncthreads();
    map_cell<true>(pictures.source<u16>(blockIdx.y), pictures.target<u16>(blockIdx.y), pictures.orders, t, cell, table, strength);
}

// The four new levels in a cell's tiles for each of `number` levels from `from` on, in 8 bytes.
// `ALL`: no other levels occur.
template <bool ALL> struct Entries16 {
    static constexpr bool WHOLE = ALL;
    const uint2* entries;
    u32 from, number;

    __device__ __forceinline__ bool has(u32 level) const { return level - from < number; }
    __device__ __forceinline__ u32 level(u32 old, const ColumnWeights& x, float ya, float yb) const {
        const uint2 e = entries[old - from];
        return x.between(wide<u16>(e.x, 0), wide<u16>(e.x, 1), wide<u16>(e.y, 0), wide<u16>(e.y, 1), ya, yb);
    }
};

// The same for all levels, if no tile's LUT is steep: the levels for each sixteenth, and four times
// 6 bits to be added for each of its levels, with the lower 16 and the upper 8 bits in separate
// arrays.
struct Offsets16 {
    static constexpr bool WHOLE = true;
    static constexpr u32 BYTES = 65536 / 16 * 8 + 65536 * 3;
    uint2* bases;

    __device__ __forceinline__ u16* lower() const { return reinterpret_cast<u16*>(bases + 65536 / 16); }
    __device__ __forceinline__ u8* upper() const { return reinterpret_cast<u8*>(lower() + 65536); }
    __device__ __forceinline__ bool has(u32) const { return true; }
    __device__ __forceinline__ u32 level(u32 old, const ColumnWeights& x, float ya, float yb) const {
        const uint2 base = bases[old / 16];
        const u32 offsets = lower()[old] | u32(upper()[old]) << 16;
        auto of = [=](u32 word, int k) {
            return __uint_as_float(__float_as_uint(wide<u16>(word, k % 2)) + (offsets >> 6 * k & 63));
        };
        return x.between(of(base.x, 0), of(base.x, 1), of(base.y, 2), of(base.y, 3), ya, yb);
    }
    // Sets the eight levels from `8 * eighth` on. Called by whole warps for consecutive eighths.
    __device__ __forceinline__ void set(u32 eighth, const uint4 (&luts)[4]) const {
        u32 base[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) base[k] = __shfl_sync(FULL_WARP, luts[k].x & 0xffff, eighth % WARP & ~1u);
        u32 offsets[8];
#pragma unroll
        for (int p = 0; p < 8; ++p) {
            offsets[p] = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                const u32 word = p / 2 == 0 ? luts[k].x : p / 2 == 1 ? luts[k].y : p / 2 == 2 ? luts[k].z : luts[k].w;
                offsets[p] |= (isolated<u16>(word, p % 2) - base[k]) << 6 * k;
            }
        }
        if (eighth % 2 == 0) bases[eighth / 2] = make_uint2(base[0] | base[1] << 16, base[2] | base[3] << 16);
        auto upper_four = [&](int p) {
            return __byte_perm(__byte_perm(offsets[p], offsets[p + 1], 0x0062), __byte_perm(offsets[p + 2], offsets[p + 3], 0x0062), 0x5410);
        };
        reinterpret_cast<uint4*>(lower())[eighth] =
            make_uint4(joined<u16>(offsets), joined<u16>(offsets + 2), joined<u16>(offsets + 4), joined<u16>(offsets + 6));
        reinterpret_cast<uint2*>(upper())[eighth] = make_uint2(upper_four(0), upper_four(4));
    }
};

// For tiles that are not small, unless ranks stand for their LUTs. These are in shared memory,
// `room` bytes of it, interleaved as far as they fit; or as offsets; or else the cell is read again
// for the levels beyond. `result` must not be the pictures themselves. Block: x = 32, y = 32. Grid:
// x = cells, y = pictures.
extern "C" __global__ void __launch_bounds__(1024, 1) cells16(
    Pictures pictures, Tiling t, const Clipping* clippings, const u16* luts, const u32* steep, u32 room, u32 strength) {
    extern __shared__ uint2 entries16[];
    const Cell cell(t, blockIdx.x, 1);
    const Clipping c = clippings[blockIdx.y];
    if (c.ranked) return;
    const u16* plane = pictures.source<u16>(blockIdx.y);
    u16* result = pictures.target<u16>(blockIdx.y);
    const u64 before = u64(blockIdx.y) * t.tiles_x * t.tiles_y;
    const u32 thread = threadIdx.y * WARP + threadIdx.x, threads = WARP * blockDim.y;
    const u16* lut[4];
    u32 any_steep = 0;
#pragma unroll
    for (int k = 0; k < 4; ++k) lut[k] = luts + 65536 * (before + cell.tile[k]), any_steep |= steep[before + cell.tile[k]];
    // Two levels at a time: the first is even, and so is their number.
    const u32 capacity = room / 16 * 2;
    auto lay_side_by_side = [&](u32 first, u32 number) {
        for (u32 i = thread; i < (number + 1) / 2; i += threads) {
            u32 pair[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) pair[k] = reinterpret_cast<const u32*>(lut[k])[first / 2 + i];
            reinterpret_cast<uint4*>(entries16)[i] =
                make_uint4(__byte_perm(pair[0], pair[1], 0x5410), __byte_perm(pair[2], pair[3], 0x5410),
                           __byte_perm(pair[0], pair[1], 0x7632), __byte_perm(pair[2], pair[3], 0x7632));
        }
        __syncthreads();
    };
    const u32 lowest = c.lowest & ~1u;
    if (c.highest - lowest < capacity) {
        lay_side_by_side(lowest, c.highest - lowest + 1);
        map_cell<true>(plane, result, pictures.orders, t, cell, Entries16<true>{entries16, lowest, 0}, strength);
    } else if (!any_steep && room >= Offsets16::BYTES) {
        const Offsets16 table = {entries16};
        for (u32 i = c.lowest / 4096 * 512 + thread; i < (c.highest / 4096 + 1) * 512; i += threads) {
            uint4 some[4];
#pragma unroll
            for (int k = 0; k < 4; ++k) some[k] = reinterpret_cast<const uint4*>(lut[k])[i];
            table.set(i, some);
        }
        __syncthreads();
        map_cell<true>(plane, result, pictures.orders, t, cell, table, strength);
    } else {
        for (u32 first = lowest; first <= c.highest; first += capacity) {
            const u32 number = min(capacity, c.highest - first + 1);
            __syncthreads();
            lay_side_by_side(first, number);
            map_cell<true>(plane, result, pictures.orders, t, cell, Entries16<false>{entries16, first, number}, strength);
        }
    }
}

// Grid: as for `interpolate`, z = pictures.
extern "C" __global__ void __launch_bounds__(256, 8)
    direct16(Pictures pictures, Tiling t, const Clipping* clippings, const u16* luts, u32 strength) {
    if (clippings[blockIdx.z].ranked) return;
    luts += u64(blockIdx.z) * t.tiles_x * t.tiles_y * 65536;
    interpolate(pictures.source<u16>(blockIdx.z), pictures.target<u16>(blockIdx.z), pictures.orders, t, luts, strength);
}
