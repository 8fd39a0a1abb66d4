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

// Makes the LUT of a plane from its counts, by the first 256 threads of a block: `count` is that of level `threadIdx.x`. `running`: room for
// 256 sums in shared memory. Called by all threads of the block.
__device__ __forceinline__ u32 made_level8(const Rule& rule, u64 count, u32 plane, u64* running) {
    __shared__ u64 of_warp[8];
    const u32 i = threadIdx.x, lane = i % WARP;
    u64 sum = i < 256 ? count : 0;
#pragma unroll
    for (int step = 1; step < int(WARP); step *= 2) {
        const u64 before = __shfl_up_sync(FULL_WARP, sum, step);
        if (lane >= step) sum += before;
    }
    __syncthreads();  // what was shared for the plane before has been read
    if (i < 256 && lane == WARP - 1) of_warp[i / WARP] = sum;
    __syncthreads();
    for (u32 warp = 0; i < 256 && warp < i / WARP; ++warp) sum += of_warp[warp];
    if (i < 256) running[i] = sum;
    __syncthreads();
    return i < 256 ? Curve(rule, running, 256, plane, ByThread()).level(i, sum) : 0;
}

// Makes a LUT of the counts of each plane. Grid: x = planes in all, of which `planes` follow one another in a picture. Block: 256.
template <typename C> __device__ __forceinline__ void luts8(const C* histograms, Rule rule, u32 planes, u8* luts) {
    __shared__ u64 running[256];
    const u64 at = blockIdx.x * 256ull + threadIdx.x;
    luts[at] = u8(made_level8(rule, histograms[at], blockIdx.x % planes, running));
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
    u32 copy;  // the place of this lane's copy, in bytes

    __device__ __forceinline__ explicit Copies8(uint4* memory) : memory(memory), copy(threadIdx.x % COPIES * 4) {}
    // Returns the place of an entry: one instruction, which the compiler would make two.
    __device__ __forceinline__ u32* entry(u32 plane, u32 level) const {
        u32 at;
        asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(level), "n"(COPIES * 4), "r"(copy));
        return reinterpret_cast<u32*>(reinterpret_cast<u8*>(memory) + plane * (256 * COPIES * 4) + at);
    }
    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < WORDS / 4; i += blockDim.x) memory[i] = make_uint4(0, 0, 0, 0);
    }
    __device__ __forceinline__ void count(u32 plane, u32 level) const { atomicAdd(entry(plane, level), 1); }
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
    // Makes them the entries of `luts`.
    __device__ __forceinline__ void set(const u8* luts) const {
        for (u32 i = threadIdx.x; i < WORDS / 4; i += blockDim.x) {
            const u32 value = __ldcg(luts + i / (COPIES / 4));
            memory[i] = make_uint4(value, value, value, value);
        }
    }
};

template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ u32 looked_up(const Copies8<CHANNELS, BY_CHANNEL>& copies, u32 plane, u32 level) {
    return *copies.entry(plane, level);
}

// What `batch_equalize8` needs besides the pictures. `counts`, `arrived` and `ready` are zero before it.
struct Sharing {
    // Pictures; parts of a picture, each of which is a block's at a time; packs of a part.
    u32 number, parts, packs;
    // Rounds of a part that stay in shared memory until they go through the LUT.
    u32 kept;
    // Whether a block that begins with another picture than the first waits until the one before is counted, so that one half of the blocks
    // reads while the other writes.
    u32 staggered;
    // For each picture: its histograms, how many of its parts have been counted, and whether its LUTs are there (1).
    u32* counts;
    u32* arrived;
    u32* ready;
    u8* luts;
};

// A part of a picture: its whole packs, in rounds in which each thread of the block takes one, and single pixels before and behind them.
template <int CHANNELS> struct Part8 {
    typedef Pack<u8, CHANNELS> P;
    u32 picture, packs, rounds, kept, head, tail;
    const u8* from;
    u8* to;

    __device__ __forceinline__ Part8(const Pictures& pictures, const Sharing& s, u32 number) {
        picture = number / s.parts;
        number -= picture * s.parts;
        const u8* source = pictures.source<u8>(picture);
        u8* target = pictures.target<u8>(picture);
        const Run<u8, CHANNELS> run(source, target, pictures.pixels);
        const u64 first = min(u64(number) * s.packs, run.packs);
        packs = u32(min(u64(s.packs), run.packs - first));
        rounds = (packs + blockDim.x - 1) / blockDim.x;
        kept = min(rounds, s.kept);
        from = source + (run.head + first * P::PIXELS) * CHANNELS;
        to = target + (run.head + first * P::PIXELS) * CHANNELS;
        head = number == 0 ? u32(run.head) : 0;
        tail = number + 1 == s.parts ? u32(run.count - run.head - run.packs * P::PIXELS) : 0;
    }
    // Returns the place of a single pixel, from the first of the packs.
    __device__ __forceinline__ i64 single(u32 k) const {
        return k < head ? -i64(head - k) : i64(u64(packs) * P::PIXELS + (k - head));
    }
};

__device__ __forceinline__ void wait_for(const u32* value, u32 wanted) {
    if (threadIdx.x == 0) {
        while (*const_cast<volatile const u32*>(value) != wanted) {}
        __threadfence();
    }
    __syncthreads();
}

// Counts pictures and sends them through the LUTs that follow, in one launch. All blocks must be resident at once. A block counts a part of a
// picture, keeps as much of it as fits in shared memory, waits for the picture's other parts, and sends it through the LUT.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void equalize8(const Pictures& pictures, const Rule& rule, const Sharing& s) {
    typedef Pack<u8, CHANNELS> P;
    typedef Copies8<CHANNELS, BY_CHANNEL> Copies;
    constexpr u32 V = P::VECTORS;
    constexpr int AT_ONCE = V == 1 ? 4 : 1;
    extern __shared__ uint4 memory[];
    __shared__ u64 running[256];
    __shared__ bool last;
    const Copies copies(memory);
    const u32 round_vectors = blockDim.x * V, lane = threadIdx.x % WARP;
    // What a warp has of a round: for packs that are not kept, and of the first round that is.
    uint4* stage = memory + Copies::WORDS / 4 + threadIdx.x / WARP * (WARP * V);
    uint4* kept = stage + (V == 1 ? 0 : round_vectors);

    for (u32 q = blockIdx.x; q < s.number * s.parts; q += gridDim.x) {
        const Part8<CHANNELS> part(pictures, s, q);
        u32* counts = s.counts + u64(part.picture) * Copies::ENTRIES;
        if (s.staggered && q < gridDim.x && part.picture > 0) wait_for(s.arrived + part.picture - 1, s.parts);

        P ahead[AT_ONCE];
#pragma unroll
        for (int k = 0; k < AT_ONCE; ++k) ahead[k].load(part.from, k * blockDim.x + threadIdx.x, part.packs);
        copies.clear();
        __syncthreads();
        for (u32 round = 0; round < part.rounds; round += AT_ONCE) {
            P here[AT_ONCE];
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                here[k] = ahead[k];
                ahead[k].load(part.from, (round + AT_ONCE + k) * blockDim.x + threadIdx.x, part.packs);
            }
#pragma unroll
            for (int k = 0; k < AT_ONCE; ++k) {
                if (round + k >= part.rounds) break;
                const bool is_kept = round + k + part.kept >= part.rounds;
                uint4* place = is_kept ? kept + (round + k + part.kept - part.rounds) * round_vectors : stage;
                if (V == 1) {
                    if (is_kept) place[lane] = here[k].vector[0];
                } else {
                    __syncwarp();
#pragma unroll
                    for (int v = 0; v < V; ++v) place[v * WARP + lane] = here[k].vector[v];
                    __syncwarp();
#pragma unroll
                    for (int v = 0; v < V; ++v) here[k].vector[v] = place[lane * V + v];
                }
                if ((round + k) * blockDim.x + threadIdx.x < part.packs) copies.count(here[k]);
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
        // The block whose part is the last of the picture makes the LUTs.
        if (threadIdx.x == 0) {
            __threadfence();
            last = atomicAdd(s.arrived + part.picture, 1) == s.parts - 1;
            __threadfence();
        }
        __syncthreads();
        if (last) {
#pragma unroll 1
            for (u32 plane = 0; plane < Copies::PLANES; ++plane) {
                const u32 at = plane * 256 + threadIdx.x;
                const u32 level = made_level8(rule, threadIdx.x < 256 ? __ldcg(counts + at) : 0, plane, running);
                if (threadIdx.x < 256) s.luts[u64(part.picture) * Copies::ENTRIES + at] = u8(level);
            }
            __syncthreads();
            if (threadIdx.x == 0) {
                __threadfence();
                atomicExch(s.ready + part.picture, 1);
            }
        }

        wait_for(s.ready + part.picture, 1);
        copies.set(s.luts + u64(part.picture) * Copies::ENTRIES);
        __syncthreads();
        // What is kept last: meanwhile the L2 cache has the rest, and of that the end rather than the beginning.
        for (u32 number = 0; number < part.rounds; ++number) {
            const bool is_kept = number >= part.rounds - part.kept;
            const u32 round = is_kept ? number : part.rounds - part.kept - 1 - number;
            const u32 i = round * blockDim.x + threadIdx.x;
            uint4* place = is_kept ? kept + (number + part.kept - part.rounds) * round_vectors : stage;
            P here;
            if (!is_kept) here.load(part.from, i, part.packs, true);
            if (V == 1) {
                if (is_kept) here.vector[0] = place[lane];
                map_pack<CHANNELS, BY_CHANNEL, u8>(here, copies).store(part.to, i, part.packs);
                continue;
            }
            if (!is_kept) {
                __syncwarp();
#pragma unroll
                for (int v = 0; v < V; ++v) place[v * WARP + lane] = here.vector[v];
            }
            __syncwarp();
#pragma unroll
            for (int v = 0; v < V; ++v) here.vector[v] = place[lane * V + v];
            const P out = map_pack<CHANNELS, BY_CHANNEL, u8>(here, copies);
#pragma unroll
            for (int v = 0; v < V; ++v) place[lane * V + v] = out.vector[v];
            __syncwarp();
            P raw;
#pragma unroll
            for (int v = 0; v < V; ++v) raw.vector[v] = place[v * WARP + lane];
            raw.store(part.to, i, part.packs);
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
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(512, 2) batch_equalize8_##NAME(Pictures pictures, Rule rule, Sharing s) {  \
        equalize8<CHANNELS, BY_CHANNEL>(pictures, rule, s);                                                                  \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
