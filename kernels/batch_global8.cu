// Batches of pictures with one LUT for a plane, depth 8. Grids: x = blocks that share a picture, y = pictures.

#include "batch.cuh"

// Counts the planes of each picture. `mask`: null, or a byte for each pixel, 0 for those that do not count; the masks of two pictures are
// `mask_pitch` bytes apart. `histograms`: 256 counts for each plane; those of two pictures are `stride` counts apart.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void count8(const Pictures& pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {
    typedef Counters8<CHANNELS, BY_CHANNEL> Counters;
    typedef typename Counters::P P;
    __shared__ __align__(16) u32 words[Counters::SIZE];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const Counters counters = {words};
    const u8* pixels = pictures.source<u8>(blockIdx.y);
    Run<u8, CHANNELS> run(pixels, pixels, pictures.pixels);
    if (mask) run.head = run.count, run.packs = 0, mask += blockIdx.y * mask_pitch;
    const u8* packed = pixels + run.head * CHANNELS;
    const u64 stride_of_packs = threads_of_grid();
    const u64 end = rounds_of_grid(run.packs) * stride_of_packs;
    P ahead;
    ahead.load(packed, thread_of_grid(), run.packs);
    counters.clear();
    for (u64 i = thread_of_grid(); i < end; i += stride_of_packs) {
        P here = ahead;
        ahead.load(packed, i + stride_of_packs, run.packs);
        here.in_order(stage);
        if (i < run.packs) counters.add(here);
    }
    const u64 singles = run.singles();
    for (u64 k = thread_of_grid(); k < singles; k += threads_of_grid()) {
        const u64 i = run.single(k);
        const u8* pixel = pixels + i * CHANNELS;
        if ((mask && mask[i] == 0) || (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0)) continue;
#pragma unroll
        for (int plane = 0; plane < Counters::PLANES; ++plane) counters.add(plane, key<CHANNELS, BY_CHANNEL>(pixel, plane));
    }
    counters.add_to(histograms + blockIdx.y * u64(stride));
}

// Counts the last of `channels` channels, whatever it is.
extern "C" __global__ void __launch_bounds__(1024) batch_count_alpha8(
    Pictures pictures, u32 channels, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {
    __shared__ __align__(16) u32 words[Counters8<1, false>::SIZE];
    const Counters8<1, false> counters = {words};
    const u8* alpha = pictures.source<u8>(blockIdx.y) + channels - 1;
    counters.clear();
    for (u64 i = thread_of_grid(); i < pictures.pixels; i += threads_of_grid()) {
        if (mask == nullptr || mask[blockIdx.y * mask_pitch + i]) counters.add(0, alpha[i * channels]);
    }
    counters.add_to(histograms + blockIdx.y * u64(stride));
}

// Makes LUTs from counts: each 256 threads of a block make one, thread `i` of them the entry of level `i`, whose `count` it passes. `plane`: its
// number among those with a reference. `wanted`: whether these threads make one, as at most the first `AT_ONCE` times 256 may. Called by all
// threads of the block, at most 512.
template <int AT_ONCE> __device__ __forceinline__ u32 made_level8(const Rule& rule, u64 count, u32 plane, bool wanted) {
    __shared__ u64 of_warp[16], sums[AT_ONCE * 256];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u64 sum = warp_scan(count);
    __syncthreads();  // what was shared for the planes before has been read
    if (lane == WARP - 1) of_warp[warp] = sum;
    __syncthreads();
    for (u32 other = warp / 8 * 8; other < warp; ++other) sum += of_warp[other];
    if (wanted) sums[threadIdx.x] = sum;
    __syncthreads();
    if (!wanted) return 0;
    const u64* running = sums + threadIdx.x / 256 * 256;
    return Curve(rule, running[255], 256, plane, ByThread{running, 256}).level(threadIdx.x % 256, sum);
}

// Makes a LUT of the counts of each plane. Grid: x = planes in all, of which `planes` follow one another in a picture. Block: 256.
template <typename C> __device__ __forceinline__ void luts8(const C* histograms, Rule rule, u32 planes, u8* luts) {
    const u64 at = blockIdx.x * 256ull + threadIdx.x;
    luts[at] = u8(made_level8<1>(rule, histograms[at], blockIdx.x % planes, true));
}
extern "C" __global__ void __launch_bounds__(256) batch_luts8(const u32* histograms, Rule rule, u32 planes, u8* luts) {
    luts8(histograms, rule, planes, luts);
}
extern "C" __global__ void __launch_bounds__(256) batch_luts_of_sums8(const u64* histograms, Rule rule, u32 planes, u8* luts) {
    luts8(histograms, rule, planes, luts);
}

// Sends pictures through LUTs; those of two pictures are `stride` entries apart.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void map8(const Pictures& pictures, const u8* given, u32 stride) {
    typedef Pack<u8, CHANNELS> P;
    constexpr u32 ENTRIES = (BY_CHANNEL ? 3 : 1) * 256;
    __shared__ u8 luts[ENTRIES];
    __shared__ uint4 stage[stage_vectors<CHANNELS>()];
    const u8* from = pictures.source<u8>(blockIdx.y);
    u8* to = pictures.target<u8>(blockIdx.y);
    const Run<u8, CHANNELS> run(from, to, pictures.pixels);
    const u8* packed = from + run.head * CHANNELS;
    u8* packed_to = to + run.head * CHANNELS;
    const u64 stride_of_packs = threads_of_grid(), rounds = rounds_of_grid(run.packs);
    P ahead;
    ahead.load(packed, thread_of_grid(), run.packs, true);
    for (u32 i = threadIdx.x; i < ENTRIES; i += blockDim.x) luts[i] = given[blockIdx.y * u64(stride) + i];
    __syncthreads();
    for (u64 round = 0; round < rounds; ++round) {
        const u64 i = round * stride_of_packs + thread_of_grid();
        P here = ahead;
        ahead.load(packed, i + stride_of_packs, run.packs, true);
        here.in_order(stage);
        P out = map_pack<CHANNELS, BY_CHANNEL, u8>(here, static_cast<const u8*>(luts));
        out.in_lines(stage);
        out.store(packed_to, i, run.packs);
    }
    const u64 singles = run.singles();
    for (u64 k = thread_of_grid(); k < singles; k += threads_of_grid()) {
        const u64 i = run.single(k);
        map_single<CHANNELS, BY_CHANNEL>(from + i * CHANNELS, to + i * CHANNELS, static_cast<const u8*>(luts));
    }
}

// Counters and, once these have been added up, LUT entries of a block, in copies interleaved by lane so that lanes rarely access the same bank.
template <int CHANNELS, bool BY_CHANNEL> struct Copies8 {
    static constexpr u32 PLANES = BY_CHANNEL ? 3 : 1;
    static constexpr u32 COPIES = BY_CHANNEL ? 16 : 32;
    static constexpr u32 ENTRIES = PLANES * 256;
    static constexpr u32 WORDS = ENTRIES * COPIES;

    uint4* memory;
    u32 copy;  // the number of this lane's

    __device__ __forceinline__ explicit Copies8(uint4* memory) : memory(memory), copy(threadIdx.x % COPIES) {}
    // Returns this lane's copy of a plane's counters or entries.
    __device__ __forceinline__ SharedWords<COPIES * 4> own(u32 plane) const {
        return SharedWords<COPIES * 4>(reinterpret_cast<u32*>(memory) + plane * (256 * COPIES) + copy);
    }
    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < WORDS / 4; i += blockDim.x) memory[i] = make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void count(u32 plane, u32 level) const { own(plane).add_one(level); }
    __device__ __forceinline__ void count(const Pack<u8, CHANNELS>& pack) const {
#pragma unroll
        for (int p = 0; p < Pack<u8, CHANNELS>::PIXELS; ++p) {
            u32 in[CHANNELS];
#pragma unroll
            for (int c = 0; c < CHANNELS; ++c) in[c] = isolated<u8>(pack.word((p * CHANNELS + c) / 4), (p * CHANNELS + c) % 4);
            if (has_alpha<CHANNELS>() && in[CHANNELS - 1] == 0) continue;
            if (colours<CHANNELS>() == 1) {
                count(0, in[0]);
            } else if (BY_CHANNEL) {
#pragma unroll
                for (int c = 0; c < 3 && c < CHANNELS; ++c) count(c, in[c]);
            } else {
                count(0, luma(in[0], in[CHANNELS > 1 ? 1 : 0], in[CHANNELS > 2 ? 2 : 0]));
            }
        }
    }
    // Adds the counts to `histograms`: two threads for each entry, which begin at different copies.
    __device__ __forceinline__ void add_to(u32* histograms) const {
        constexpr u32 MINE = COPIES / 8;
        for (u32 i = threadIdx.x; i < ENTRIES * 2; i += blockDim.x) {
            const u32 at = i / 2;
            u32 sum = 0;
#pragma unroll
            for (u32 k = 0; k < MINE; ++k) {
                const uint4 some = memory[i * MINE + (k + at) % MINE];
                sum += some.x + some.y + some.z + some.w;
            }
            sum += __shfl_xor_sync(FULL_WARP, sum, 1);
            if (i % 2 == 0 && sum) atomicAdd(histograms + at, sum);
        }
    }
    // Makes them the entries of `luts`, in shared memory.
    __device__ __forceinline__ void set(const u8* luts) const {
        for (u32 i = threadIdx.x; i < WORDS / 4; i += blockDim.x) {
            const u32 value = luts[i / (COPIES / 4)];
            memory[i] = make_uint4(value, value, value, value);
        }
    }
};

template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ u32 looked_up(const Copies8<CHANNELS, BY_CHANNEL>& copies, u32 plane, u32 level) {
    return copies.own(plane)[level];
}

// What `batch_equalize8` needs besides the pictures. `counts` and `arrived` are zero before it.
struct Sharing {
    // Pictures; parts of a picture, each of which is a block's at a time; packs of a part.
    u32 number, parts, packs;
    // Rounds of a part that stay in shared memory until they go through the LUT.
    u32 kept;
    // Whether a block that begins with another picture than the first waits until the one before is counted, so that one half of the blocks
    // reads while the other writes.
    u32 staggered;
    // For each picture: its histograms, and how many of its parts have been counted.
    u32* counts;
    u32* arrived;
};

// Threads of a block, and blocks of a multiprocessor: while some wait, the others go on.
__device__ constexpr u32 equalizing_threads(bool by_channel) { return by_channel ? 512 : 384; }
__device__ constexpr u32 equalizing_blocks(bool by_channel) { return by_channel ? 2 : 3; }

// A part of a picture: 16-byte words, in rounds in which each thread of the block takes one (or one of its three of a pack), and single pixels
// before and behind them.
template <int CHANNELS, u32 A_ROUND> struct Part8 {
    typedef Pack<u8, CHANNELS> P;
    u32 picture, words, rounds, kept, head, tail;
    const u8* from;
    u8* to;

    __device__ __forceinline__ Part8(const Pictures& pictures, const Sharing& s, u32 number) {
        picture = number / s.parts;
        number -= picture * s.parts;
        const u8* source = pictures.source<u8>(picture);
        u8* target = pictures.target<u8>(picture);
        const Run<u8, CHANNELS> run(source, target, pictures.pixels);
        const u64 first = min(u64(number) * s.packs, run.packs);
        words = u32(min(u64(s.packs), run.packs - first)) * P::VECTORS;
        rounds = (words + A_ROUND - 1) / A_ROUND;
        kept = min(rounds, s.kept);
        from = source + (run.head + first * P::PIXELS) * CHANNELS;
        to = target + (run.head + first * P::PIXELS) * CHANNELS;
        head = number == 0 ? u32(run.head) : 0;
        tail = number + 1 == s.parts ? u32(run.count - run.head - run.packs * P::PIXELS) : 0;
    }
    // Returns the place of a single pixel, from the first of the words.
    __device__ __forceinline__ i64 single(u32 k) const {
        return k < head ? -i64(head - k) : i64(u64(words) * 16 / CHANNELS + (k - head));
    }
};

__device__ __forceinline__ void wait_for(const u32* value, u32 wanted) {
    if (threadIdx.x == 0) {
        while (*const_cast<volatile const u32*>(value) != wanted) {}
        __threadfence();
    }
    __syncthreads();
}

// Whole pixels in each 16-byte word: one word of a thread at a time is counted and mapped.
template <int CHANNELS, bool BY_CHANNEL> struct Whole8 {
    typedef Copies8<CHANNELS, BY_CHANNEL> Copies;

    __device__ __forceinline__ static void count(const Copies& copies, const uint4& word, u32) {
        Pack<u8, CHANNELS> pack;
        pack.vector[0] = word;
        copies.count(pack);
    }
    __device__ __forceinline__ static uint4 mapped(const Copies& copies, const uint4& word, u32) {
        Pack<u8, CHANNELS> pack;
        pack.vector[0] = word;
        return map_pack<CHANNELS, BY_CHANNEL, u8>(pack, copies).vector[0];
    }
};

// RGB by channel: the first sample of word `index` is of channel `index % 3`, and the rest follow in turn.
struct Turns8 {
    typedef Copies8<3, true> Copies;

    typedef SharedWords<Copies::COPIES * 4> Own;

    struct Planes {
        Own of[3];
        __device__ __forceinline__ Planes(const Copies& copies, u32 first)
            : of{copies.own(first), copies.own(first == 2 ? 0 : first + 1), copies.own(first == 0 ? 2 : first - 1)} {}
    };
    __device__ __forceinline__ static u32 sample(const uint4& word, int i) {
        return isolated<u8>(i < 4 ? word.x : i < 8 ? word.y : i < 12 ? word.z : word.w, i % 4);
    }
    __device__ __forceinline__ static void count(const Copies& copies, const uint4& word, u32 index) {
        const Planes planes(copies, index % 3);
#pragma unroll
        for (int i = 0; i < 16; ++i) planes.of[i % 3].add_one(sample(word, i));
    }
    __device__ __forceinline__ static uint4 mapped(const Copies& copies, const uint4& word, u32 index) {
        const Planes planes(copies, index % 3);
        u32 to[16];
#pragma unroll
        for (int i = 0; i < 16; ++i) to[i] = planes.of[i % 3][sample(word, i)];
        return make_uint4(joined<u8>(to), joined<u8>(to + 4), joined<u8>(to + 8), joined<u8>(to + 12));
    }
};

// Counts pictures and sends them through the LUTs that follow, in one launch. All blocks must be resident at once. A block counts a part of a
// picture, keeps as much of it as fits in shared memory, waits for the picture's other parts, makes the LUT, and sends its part through it.
template <int CHANNELS, bool BY_CHANNEL, typename Words>
__device__ __forceinline__ void equalize8(const Pictures& pictures, const Rule& rule, const Sharing& s) {
    typedef Copies8<CHANNELS, BY_CHANNEL> Copies;
    constexpr u32 AT_ONCE = 4, EQUALIZING = equalizing_threads(BY_CHANNEL);
    extern __shared__ uint4 memory[];
    __shared__ u8 luts[Copies::ENTRIES];
    const Copies copies(memory);
    uint4* kept = memory + Copies::WORDS / 4 + threadIdx.x;

    for (u32 q = blockIdx.x; q < s.number * s.parts; q += gridDim.x) {
        const Part8<CHANNELS, EQUALIZING> part(pictures, s, q);
        const u32 not_kept = part.rounds - part.kept;
        u32* counts = s.counts + u64(part.picture) * Copies::ENTRIES;
        if (s.staggered && q < gridDim.x && part.picture > 0) wait_for(s.arrived + part.picture - 1, s.parts);

        const uint4* from = reinterpret_cast<const uint4*>(part.from) + threadIdx.x;
        auto load = [&](uint4 (&words)[AT_ONCE], u32 round, bool once) {
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 i = (round + k) * EQUALIZING;
                if (i + threadIdx.x < part.words) words[k] = once ? __ldcs(from + i) : from[i];
            }
        };
        uint4 ahead[AT_ONCE];
        load(ahead, 0, false);
        copies.clear();
        __syncthreads();
        for (u32 round = 0; round < part.rounds; round += AT_ONCE) {
            uint4 here[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) here[k] = ahead[k];
            load(ahead, round + AT_ONCE, false);
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                const u32 i = (round + k) * EQUALIZING + threadIdx.x;
                if (i >= part.words) break;
                if (round + k >= not_kept) kept[(round + k - not_kept) * EQUALIZING] = here[k];
                Words::count(copies, here[k], i);
            }
        }
        if (threadIdx.x < part.head + part.tail) {
            const u8* pixel = part.from + part.single(threadIdx.x) * CHANNELS;
            if (!has_alpha<CHANNELS>() || pixel[CHANNELS - 1]) {
#pragma unroll
                for (int plane = 0; plane < Copies::PLANES; ++plane) copies.count(plane, key<CHANNELS, BY_CHANNEL>(pixel, plane));
            }
        }
        __syncthreads();
        copies.add_to(counts);
        __syncthreads();
        if (threadIdx.x == 0) {
            __threadfence();
            atomicAdd(s.arrived + part.picture, 1);
        }
        // The first of what is not kept, from the end, which the L2 cache still holds.
        auto load_back = [&](u32 number) {
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                if (number + k >= not_kept) break;
                const u32 i = (not_kept - 1 - number - k) * EQUALIZING;
                if (i + threadIdx.x < part.words) ahead[k] = __ldcs(from + i);
            }
        };
        load_back(0);

        wait_for(s.arrived + part.picture, s.parts);
#pragma unroll 1
        for (u32 first = 0; first < Copies::ENTRIES; first += EQUALIZING) {
            const u32 at = first + threadIdx.x;
            const bool wanted = at < Copies::ENTRIES;
            const u32 level = made_level8<BY_CHANNEL ? 2 : 1>(rule, wanted ? __ldcg(counts + at) : 0, at / 256, wanted);
            if (wanted) luts[at] = u8(level);
        }
        __syncthreads();
        copies.set(luts);
        __syncthreads();
        uint4* to = reinterpret_cast<uint4*>(part.to) + threadIdx.x;
        for (u32 number = 0; number < not_kept; number += AT_ONCE) {
            uint4 here[AT_ONCE];
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) here[k] = ahead[k];
            load_back(number + AT_ONCE);
#pragma unroll
            for (u32 k = 0; k < AT_ONCE; ++k) {
                if (number + k >= not_kept) break;
                const u32 i = (not_kept - 1 - number - k) * EQUALIZING;
                if (i + threadIdx.x < part.words) __stcs(to + i, Words::mapped(copies, here[k], i + threadIdx.x));
            }
        }
        for (u32 round = not_kept; round < part.rounds; ++round) {
            const u32 i = round * EQUALIZING;
            if (i + threadIdx.x < part.words) __stcs(to + i, Words::mapped(copies, kept[(round - not_kept) * EQUALIZING], i + threadIdx.x));
        }
        if (threadIdx.x < part.head + part.tail) {
            const i64 at = part.single(threadIdx.x) * CHANNELS;
            map_single<CHANNELS, BY_CHANNEL>(part.from + at, part.to + at, copies);
        }
        __syncthreads();  // before the table and what is kept are used again
    }
}

#define GLOBAL8(NAME, CHANNELS, BY_CHANNEL)                                                                                  \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>()) batch_count8_##NAME(                             \
        Pictures pictures, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {                                    \
        count8<CHANNELS, BY_CHANNEL>(pictures, mask, mask_pitch, histograms, stride);                                        \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(block_threads<CHANNELS>(), 1024 / block_threads<CHANNELS>())                \
        batch_map8_##NAME(Pictures pictures, const u8* luts, u32 stride) {                                                   \
        map8<CHANNELS, BY_CHANNEL>(pictures, luts, stride);                                                                  \
    }
#define EQUALIZE8(NAME, CHANNELS, BY_CHANNEL, ...)                                                                           \
    extern "C" __global__ void __launch_bounds__(equalizing_threads(BY_CHANNEL), equalizing_blocks(BY_CHANNEL))              \
        batch_equalize8_##NAME(Pictures pictures, Rule rule, Sharing s) {                                                    \
        equalize8<CHANNELS, BY_CHANNEL, __VA_ARGS__>(pictures, rule, s);                                                     \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
EQUALIZE8(gray, 1, false, Whole8<1, false>)
EQUALIZE8(gray_alpha, 2, false, Whole8<2, false>)
EQUALIZE8(rgb_channels, 3, true, Turns8)
EQUALIZE8(rgba_luma, 4, false, Whole8<4, false>)
EQUALIZE8(rgba_channels, 4, true, Whole8<4, true>)
