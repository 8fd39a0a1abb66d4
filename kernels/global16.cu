// Batches of pictures with one LUT for a plane, depth 16; and counts made into running sums and
// bins, which both depths need.

#include "batch.cuh"

// Counts a pack of gray pixels where there is a counter for every level. A pack of only one level
// is counted at once.
template <int CHANNELS> __device__ __forceinline__ void count_gray(const HalfCounters& counters, const Pack<u16, CHANNELS>& pack) {
    const u32 first = pack.word(0);
    bool flat = __byte_perm(first, 0, 0x1032) == first;
#pragma unroll
    for (int w = 1; w < 4; ++w) flat &= pack.word(w) == first;
    if (flat) return counters.add_within(first & 0xffff, Pack<u16, 1>::PIXELS);
#pragma unroll
    for (int i = 0; i < Pack<u16, 1>::PIXELS; ++i) counters.add_within(isolated<u16>(pack.word(i / 2), i % 2), 1);
}

// Counts a plane of a picture, over the grid's x. Returns whether this thread moved any counts.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ bool count_plane16(const Pictures& pictures, u32 picture, int plane, const u8* mask, const HalfCounters& counters, uint4* stage) {
    typedef Pack<u16, CHANNELS> P;
    constexpr u32 AHEAD = CHANNELS == 3 ? 1 : 4;
    // Rounds of the loop between two calls of `settle`.
    constexpr u32 ROUNDS = HalfCounters::BETWEEN / block_threads<CHANNELS>() / P::PIXELS / AHEAD;
    const u16* pixels = pictures.source<u16>(picture);
    Run<u16, CHANNELS> run(pixels, pixels, pictures.pixels);
    if (mask) run.head = run.count, run.packs = 0;
    const u16* packed = pixels + run.head * CHANNELS;
    const u64 packs = run.packs, step = threads_of_grid(), end = rounds_of_grid(packs) * step;
    P ahead[AHEAD];
#pragma unroll
    for (u32 k = 0; k < AHEAD; ++k) ahead[k].load(packed, thread_of_grid() + k * step, packs);
    counters.clear();

    bool moved = false;
    u32 rounds = 0;
    for (u64 i = thread_of_grid(); i < end; i += AHEAD * step) {
        P here[AHEAD];
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k] = ahead[k];
            ahead[k].load(packed, i + (AHEAD + k) * step, packs);
        }
        if (rounds++ == ROUNDS) moved |= counters.settle(), rounds = 1;
#pragma unroll
        for (u32 k = 0; k < AHEAD; ++k) {
            here[k].in_order(stage, pictures.orders.from);
            if (i + k * step >= packs) continue;
            if (CHANNELS == 1 && counters.range == 65536) {
                count_gray(counters, here[k]);
            } else {
                counters.add_pack<CHANNELS, BY_CHANNEL>(here[k], plane);
            }
        }
    }
    const u64 singles = run.singles();
    for (u64 first = 0; first < singles; first += step) {
        if (first / step % (HalfCounters::BETWEEN / 1024) == 0) moved |= counters.settle();
        const u64 k = first + thread_of_grid();
        if (k >= singles) continue;
        const u64 i = run.single(k);
        const u16* pixel = pixels + i * CHANNELS;
        if ((mask && mask[i] == 0) || (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0)) continue;
        counters.add(key<CHANNELS, BY_CHANNEL>(pixel, plane, pictures.orders.from), 1);
    }
    return moved;
}

// Counts the planes of each picture. Grid: x = blocks that share the pixels; y = ranges of `range`
// levels (a multiple of 8, as many as shared memory holds); z = planes, picture by picture. `mask`:
// as for `count8`. `histograms`: 65536 counts for each plane; the counts of two pictures are
// `stride` counts apart.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void count16(const Pictures& pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride, u32 range) {
    constexpr u32 PLANES = BY_CHANNEL ? 3 : 1;
    extern __shared__ u32 words[];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const u32 picture = blockIdx.z / PLANES, plane = blockIdx.z % PLANES;
    const HalfCounters counters = {words, blockIdx.y * range, range, histograms + picture * u64(stride) + 65536u * plane};
    count_plane16<CHANNELS, BY_CHANNEL>(pictures, picture, plane, mask ? mask + picture * mask_pitch : nullptr, counters, stage);
    counters.move_all();
}

// Counts the last of `channels` channels, even if it is no alpha. Equal pixels of a warp are
// counted at once.
extern "C" __global__ void __launch_bounds__(1024) count_alpha16(
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

// Running sums of planes of 65536 counts take two launches: `sums` adds up each 1024 of them, and
// `running` adds on. Grid: x = 64, y = planes. Block: 1024.
extern "C" __global__ void __launch_bounds__(1024) sums(const u64* histograms, u64* of_blocks) {
    __shared__ u64 scratch[WARP];
    const u64 all = block_sum(histograms[blockIdx.y * 65536ull + blockIdx.x * 1024 + threadIdx.x], scratch);
    if (threadIdx.x == 0) of_blocks[blockIdx.y * 64 + blockIdx.x] = all;
}
extern "C" __global__ void __launch_bounds__(1024) running(const u64* histograms, const u64* of_blocks, u64* running) {
    __shared__ u64 scratch[WARP];
    const u64 before = block_sum(threadIdx.x < blockIdx.x ? of_blocks[blockIdx.y * 64 + threadIdx.x] : 0, scratch);
    const u64 at = blockIdx.y * 65536ull + blockIdx.x * 1024 + threadIdx.x;
    running[at] = before + block_scan(histograms[at], scratch);
}

// Sums the histograms of all pictures and their running sums, for 256 levels: those of a reference.
// Block: 256. Grid: planes, which follow one another in a picture.
extern "C" __global__ void __launch_bounds__(256) running8(const u64* histograms, u64* running) {
    __shared__ u64 sums[256];
    sums[threadIdx.x] = histograms[blockIdx.x * 256 + threadIdx.x];
    __syncthreads();
    u64 sum = 0;
    for (u32 i = 0; i <= threadIdx.x; ++i) sum += sums[i];
    running[blockIdx.x * 256 + threadIdx.x] = sum;
}

// Adds up the counts of all `number` pictures, `size` counts each.
extern "C" __global__ void __launch_bounds__(256) total(const u32* histograms, u32 number, u32 size, u64* total) {
    const u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= size) return;
    u64 sum = 0;
    for (u32 picture = 0; picture < number; ++picture) sum += histograms[u64(picture) * size + i];
    total[i] = sum;
}

// Prepares counts for LUTs: the sum of `added` consecutive planes, capped at a `share` of their
// samples in millionths (ALL caps no count), for each of `copies` planes. Grid: x = resulting
// planes. Block: 1024.
template <typename C> __device__ __forceinline__ void prepare(const C* histograms, u32 added, u32 copies, u32 levels, u32 share, u64* prepared) {
    constexpr u64 ALL = Curve::ALL;
    __shared__ u64 scratch[WARP];
    const C* counts = histograms + u64(blockIdx.x / copies) * added * levels;
    auto sum = [=](u32 i) {
        u64 sum = 0;
        for (u32 plane = 0; plane < added; ++plane) sum += counts[u64(plane) * levels + i];
        return sum;
    };
    u64 own = 0;
    for (u32 i = threadIdx.x; i < levels; i += blockDim.x) own += sum(i);
    const u64 total = block_sum(own, scratch);
    // The floor of total * share / ALL, without overflow.
    const u64 most = share >= ALL ? ~u64(0) : max(total / ALL * share + total % ALL * share / ALL, u64(1));
    for (u32 i = threadIdx.x; i < levels; i += blockDim.x) prepared[u64(blockIdx.x) * levels + i] = min(sum(i), most);
}
extern "C" __global__ void __launch_bounds__(1024) prepare_counts(
    const u32* histograms, u32 added, u32 copies, u32 levels, u32 share, u64* prepared) {
    prepare(histograms, added, copies, levels, share, prepared);
}
extern "C" __global__ void __launch_bounds__(1024) prepare_sums(
    const u64* histograms, u32 added, u32 copies, u32 levels, u32 share, u64* prepared) {
    prepare(histograms, added, copies, levels, share, prepared);
}

// Makes the exposure table of each plane, and with `mapped` the counts of its levels. `number` is
// the number of levels; `share` is of the range, in thousandths; `low` and `high` are of the
// samples, as in `Rule`. See `crates/equalize/src/exposure.rs`. Grid: x = planes. Block: 1024.
template <typename S, typename C>
__device__ __forceinline__ void expose(const C* histograms, u32 number, u32 share, u32 low, u32 high, S* tables, u64* mapped) {
    constexpr u32 L = levels<S>(), EACH = (L + 1023) / 1024, BRIGHTER = 3;
    __shared__ u64 scratch[WARP];
    __shared__ u32 ends[2];
    const C* counts = histograms + u64(blockIdx.x) * L;
    S* table = tables + u64(blockIdx.x) * L;
    const u32 from = threadIdx.x * EACH, to = min(from + EACH, L);
    u64 own = 0;
    for (u32 i = from; i < to; ++i) own += counts[i];
    const u64 total = block_sum(own, scratch);
    u64 running = block_scan(own, scratch) - own;
    if (threadIdx.x == 0) ends[0] = ends[1] = L;
    __syncthreads();
    u32 darkest = L, brightest = L;
    for (u32 i = from; i < to; ++i) {
        running += counts[i];
        if (darkest == L && !at_least(total, low, running, Curve::ALL)) darkest = i;
        if (brightest == L && at_least(total, high, total - running, Curve::ALL)) brightest = i;
    }
    if (darkest < L) atomicMin(ends, darkest);
    if (brightest < L) atomicMin(ends + 1, brightest);
    if (mapped) mapped += u64(blockIdx.x) * L;
    for (u32 i = threadIdx.x; mapped && i < L; i += blockDim.x) mapped[i] = 0;
    __syncthreads();
    const u64 a = ends[0], b = ends[1], top = number - 1, black = a / 2, white = max(b, min(top * share / 1000, BRIGHTER * b));
    for (u32 i = threadIdx.x; i < L; i += blockDim.x) {
        u64 level = i;
        if (a < b && i < number) level = i < black ? 0 : min((2 * (i - black) * white + b - black) / (2 * (b - black)), top);
        table[i] = S(level);
        if (mapped && counts[i]) atomicAdd(mapped + level, u64(counts[i]));
    }
}

// Composes exposure tables with LUTs of exposed levels, at a strength. Grid: x = planes. Block:
// 1024.
template <typename S> __device__ __forceinline__ void compose(const S* tables, const S* luts, u32 strength, S* composed) {
    const u64 first = u64(blockIdx.x) * levels<S>();
    for (u32 i = threadIdx.x; i < levels<S>(); i += blockDim.x) {
        const u32 exposed = tables[first + i];
        composed[first + i] = S(weakened(exposed, luts[first + exposed], strength));
    }
}

#define EXPOSE(BITS)                                                                                                         \
    extern "C" __global__ void __launch_bounds__(1024) expose##BITS##_counts(                                                \
        const u32* histograms, u32 number, u32 share, u32 low, u32 high, u##BITS* tables, u64* mapped) {                     \
        expose(histograms, number, share, low, high, tables, mapped);                                                        \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(1024) expose##BITS##_sums(                                                  \
        const u64* histograms, u32 number, u32 share, u32 low, u32 high, u##BITS* tables, u64* mapped) {                     \
        expose(histograms, number, share, low, high, tables, mapped);                                                        \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(1024) compose##BITS(                                                        \
        const u##BITS* tables, const u##BITS* luts, u32 strength, u##BITS* composed) {                                       \
        compose(tables, luts, strength, composed);                                                                           \
    }
EXPOSE(8)
EXPOSE(16)

// Divides the `levels` levels of each plane among `bins` bins. Grid: y = planes.
extern "C" __global__ void __launch_bounds__(256) bins(const u32* histograms, u32 levels, u32 bins, u64* binned) {
    const u32 bin = blockIdx.x * blockDim.x + threadIdx.x;
    if (bin >= bins) return;
    // The levels `i` with `i * bins / levels == bin`.
    const u32 from = u32((u64(bin) * levels + bins - 1) / bins), to = u32((u64(bin + 1) * levels + bins - 1) / bins);
    u64 sum = 0;
    for (u32 i = from; i < to; ++i) sum += histograms[u64(blockIdx.y) * levels + i];
    binned[u64(blockIdx.y) * bins + bin] = sum;
}

// Counts that are read at once: 32-bit counts are aligned to 16 bytes.
template <typename C> struct Several {
    typedef C Type;
    __device__ __forceinline__ static u64 sum(C count) { return count; }
};
template <> struct Several<u32> {
    typedef uint4 Type;
    __device__ __forceinline__ static u64 sum(const uint4& n) { return u64(n.x) + n.y + n.z + n.w; }
};

// The counts of one plane, for a block of 1024 threads. Each knows the sum of 64 levels and of all
// levels below.
template <typename C> struct ByBlock {
    static constexpr u32 EACH = 64;
    const C* counts;
    u64 before, own;

    __device__ __forceinline__ ByBlock(const C* counts, u64* scratch) : counts(counts), own(0) {
        typedef typename Several<C>::Type Words;
        const Words* words = reinterpret_cast<const Words*>(counts + threadIdx.x * EACH);
#pragma unroll 8
        for (u32 i = 0; i < EACH * sizeof(C) / sizeof(Words); ++i) own += Several<C>::sum(words[i]);
        before = block_scan(own, scratch) - own;
    }
    // Finds the lowest level with a running sum for which `reached` holds, or the highest level if
    // there is no such level.
    template <typename Reached> __device__ __forceinline__ Found operator()(Reached reached) const {
        __shared__ Found of_thread, found;
        __syncthreads();
        if (threadIdx.x == blockDim.x - 1) of_thread = {threadIdx.x, before};
        __syncthreads();
        if ((threadIdx.x == 0 || !reached(before)) && reached(before + own)) of_thread = {threadIdx.x, before};
        __syncthreads();
        if (threadIdx.x < WARP) {
            const u32 level = of_thread.level * EACH + 2 * threadIdx.x;
            const u64 second = counts[level + 1], sum = of_thread.running + warp_scan(counts[level] + second);
            const u32 those = __ballot_sync(FULL_WARP, reached(sum)) | 1u << 31;
            if (threadIdx.x == __ffs(those) - 1) {
                const bool is_first = reached(sum - second);
                found = {level + !is_first, is_first ? sum - second : sum};
            }
        }
        __syncthreads();
        return found;
    }
};

// Makes the LUT of each plane from its counts. Grid: x = blocks that share a LUT's 16 parts, y =
// all planes; a picture has `planes` consecutive ones. Block: 1024. Each block sums up all counts:
// reading 256 KiB from the L2 cache costs less than another launch.
template <typename C> __device__ __forceinline__ void luts16(const C* histograms, const Rule& rule, u32 planes, u16* luts) {
    constexpr u32 PARTS = 16, LEVELS = 65536 / PARTS;
    __shared__ u64 scratch[WARP];
    __shared__ u64 below[PARTS], total;
    const C* counts = histograms + blockIdx.y * 65536ull;
    const ByBlock<C> search(counts, scratch);
    if (threadIdx.x % (blockDim.x / PARTS) == 0) below[threadIdx.x / (blockDim.x / PARTS)] = search.before;
    if (threadIdx.x == blockDim.x - 1) total = search.before + search.own;
    __syncthreads();
    const Curve curve(rule, total, 65536, blockIdx.y % planes, search);
    for (u32 part = blockIdx.x; part < PARTS; part += gridDim.x) {
        const u32 level = part * LEVELS + threadIdx.x * 4;
        C n[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) n[k] = counts[level + k];
        const u64 sum = u64(n[0]) + n[1] + n[2] + n[3];
        u64 running = below[part] + block_scan(sum, scratch) - sum;
        u32 made[4];
#pragma unroll
        for (int k = 0; k < 4; ++k) running += n[k], made[k] = curve.level(level + k, running);
        *reinterpret_cast<uint2*>(luts + blockIdx.y * 65536ull + level) = make_uint2(joined<u16>(made), joined<u16>(made + 2));
    }
}
extern "C" __global__ void __launch_bounds__(1024) luts16_of_counts(const u32* histograms, Rule rule, u32 planes, u16* luts) {
    luts16(histograms, rule, planes, luts);
}
extern "C" __global__ void __launch_bounds__(1024) luts16_of_sums(const u64* histograms, Rule rule, u32 planes, u16* luts) {
    luts16(histograms, rule, planes, luts);
}

// Sends pictures through LUTs. The LUTs of two pictures are `stride` entries apart. Grid: x =
// blocks that share a picture, y = pictures.
template <int CHANNELS, bool BY_CHANNEL, int AT_ONCE>
__device__ __forceinline__ void map16(const Pictures& pictures, u32 picture, const u16* luts, uint4* stage) {
    typedef Pack<u16, CHANNELS> P;
    const u16* from = pictures.source<u16>(picture);
    u16* to = pictures.target<u16>(picture);
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
            here[k].in_order(stage, pictures.orders.from);
            P out = map_pack<CHANNELS, BY_CHANNEL, u16>(here[k], luts);
            out.in_lines(stage, pictures.orders.to);
            out.store(packed_to, (round - 1 - k) * step + thread_of_grid(), run.packs);
        }
    }
    const u64 singles = run.singles();
    for (u64 k = thread_of_grid(); k < singles; k += step) {
        const u64 i = run.single(k);
        map_single<CHANNELS, BY_CHANNEL>(from + i * CHANNELS, to + i * CHANNELS, luts, pictures.orders);
    }
}

// The count of the lowest level that occurs, if known.
struct FirstFound {
    u64 count;
    template <typename Reached> __device__ __forceinline__ Found operator()(Reached) const { return {0, count}; }
};

// Equalizes pictures that are small, but many: a block counts a picture, makes its LUT, and sends
// it through. `spill`: 65536 counts for each picture, zero before and after.
template <int CHANNELS> __device__ __forceinline__ void equalize16(const Pictures& pictures, u32 strength, u32* spill) {
    extern __shared__ u32 words[];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    __shared__ u32 scratch[WARP];
    __shared__ u32 lowest, first;
    const u32 picture = blockIdx.y, lane = threadIdx.x % WARP;
    const HalfCounters counters = {words, 0, 65536, spill + 65536ull * picture};
    if (threadIdx.x == 0) lowest = 65535, first = 0;
    const bool moved = __syncthreads_or(count_plane16<CHANNELS, false>(pictures, picture, 0, nullptr, counters, stage));

    // Each warp owns consecutive levels; a lane takes four of them at a time.
    const u32 bins_a_warp = 65536 / (blockDim.x / WARP);
    const u32 from = threadIdx.x / WARP * bins_a_warp + 4 * lane, end = from - 4 * lane + bins_a_warp;
    auto counted = [=](u32 bin) {
        uint4 n = counters.counts(bin);
        if (moved) {
            const uint4 m = __ldcg(reinterpret_cast<const uint4*>(counters.histogram + bin));
            n = make_uint4(n.x + m.x, n.y + m.y, n.z + m.z, n.w + m.w);
        }
        return n;
    };
    u32 sum = 0, seen = 65536, seen_count = 0;
    for (u32 bin = from; bin < end; bin += 4 * WARP) {
        const uint4 n = counted(bin);
        sum += n.x + n.y + n.z + n.w;
        if (seen == 65536 && n.x + n.y + n.z + n.w) {
            seen = bin + (n.x ? 0 : n.y ? 1 : n.z ? 2 : 3);
            seen_count = n.x ? n.x : n.y ? n.y : n.z ? n.z : n.w;
        }
    }
    if (seen < 65536) atomicMin(&lowest, seen);
    sum = warp_sum(sum);
    const u32 total = block_sum(lane == 0 ? sum : 0, scratch);
    if (seen == lowest) first = seen_count;
    u32 running = __shfl_sync(FULL_WARP, block_scan(lane == 0 ? sum : 0, scratch), 0) - sum;
    const Rule rule = {Rule::EQUALIZE, strength, 0, 0, nullptr};
    const Curve curve(rule, total, 65536, 0, FirstFound{first});
    for (u32 bin = from; bin < end; bin += 4 * WARP) {
        const uint4 n = counted(bin);
        const u32 here = running + warp_scan(n.x + n.y + n.z + n.w);
        running = __shfl_sync(FULL_WARP, here, WARP - 1);
        const u32 c2 = here - n.w, c1 = c2 - n.z, c0 = c1 - n.y;
        const u32 made[4] = {curve.level(bin, c0), curve.level(bin + 1, c1), curve.level(bin + 2, c2), curve.level(bin + 3, here)};
        *reinterpret_cast<uint2*>(words + bin / 2) = make_uint2(joined<u16>(made), joined<u16>(made + 2));
        if (moved) *reinterpret_cast<uint4*>(counters.histogram + bin) = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    map16<CHANNELS, false, CHANNELS == 3 ? 1 : 3>(pictures, picture, reinterpret_cast<const u16*>(words), stage);
}

#define GLOBAL16(NAME, CHANNELS, BY_CHANNEL)                                                                                 \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>()) count16_##NAME(                            \
        Pictures pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride, u32 range) {                         \
        count16<CHANNELS, BY_CHANNEL>(pictures, mask, mask_pitch, histograms, stride, range);                                \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        map16_##NAME(Pictures pictures, const u16* luts, u32 stride) {                                                 \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        map16<CHANNELS, BY_CHANNEL, 1>(pictures, blockIdx.y, luts + blockIdx.y * u64(stride), stage);                                    \
    }
#define EQUALIZE16(NAME, CHANNELS)                                                                                           \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        equalize16_##NAME(Pictures pictures, u32 strength, u32* spill) {                                                     \
        equalize16<CHANNELS>(pictures, strength, spill);                                                                     \
    }
EQUALIZE16(gray, 1)
EQUALIZE16(gray_alpha, 2)
EQUALIZE16(rgb_luma, 3)
EQUALIZE16(rgba_luma, 4)
// The only LUT of a picture in 128 KiB of shared memory, on GPUs that have this much.
#define GLOBAL16_SHARED(NAME, CHANNELS)                                                                                      \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>())                                                  \
        map16_shared_##NAME(Pictures pictures, const u16* luts, u32 stride) {                                          \
        extern __shared__ uint4 lut[];                                                                                       \
        __shared__ uint4 stage[stage_vectors<CHANNELS>()];                                                                   \
        share(luts + blockIdx.y * u64(stride), lut, 65536 * sizeof(u16) / sizeof(uint4));                                    \
        map16<CHANNELS, false, CHANNELS == 3 ? 1 : 3>(pictures, blockIdx.y, reinterpret_cast<const u16*>(lut), stage);                   \
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
