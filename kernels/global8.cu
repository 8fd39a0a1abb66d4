// Global equalization, depth 8. A picture is counted and mapped in parts, each by a block at a
// time.

#include "batch.cuh"

// Threads of a block, and blocks of a multiprocessor: while one waits, the other goes on.
constexpr u32 EQUALIZING = 512, BLOCKS = 2;

__device__ __forceinline__ u32 looked_up(const Copies8& copies, u32 plane, u32 level) { return copies.plane(plane)[level]; }

// A part of a picture: 16-byte words that begin at multiples of 16 bytes both in the source and in
// the target, and single pixels before and after those of the whole picture. In a round, each
// thread takes `AT_ONCE` words, and each warp takes consecutive words, lane by lane.
template <int CHANNELS> struct Part8 {
    typedef Pack<u8, CHANNELS> P;
    static constexpr u32 AT_ONCE = CHANNELS == 3 ? 3 : 4, ROUND = EQUALIZING * AT_ONCE;
    const u8* pixels;
    u8* results;
    Run<u8, CHANNELS> run;
    u32 number, parts;
    // This thread's first word of the round, and the number of words of the part from there on.
    const uint4* from;
    uint4* to;
    int left;

    __device__ __forceinline__ Part8(const Pictures& pictures, u32 picture, u32 number, u32 parts, bool has_mask = false)
        : pixels(pictures.source<u8>(picture)), results(pictures.target<u8>(picture)), run(pixels, results, pictures.pixels),
          number(number), parts(parts) {
        if (has_mask) run.head = run.count, run.packs = 0;
        const u32 packs = u32(run.packs), size = (packs + parts - 1) / parts, first = min(number * size, packs);
        const u32 mine = threadIdx.x / WARP * (WARP * AT_ONCE) + threadIdx.x % WARP;
        from = reinterpret_cast<const uint4*>(pixels + run.head * CHANNELS) + (first * P::VECTORS + mine);
        to = reinterpret_cast<uint4*>(results + run.head * CHANNELS) + (first * P::VECTORS + mine);
        left = int(min(size, packs - first) * P::VECTORS) - int(mine);
    }
    // Returns whether there is a word for any lane of this warp.
    __device__ __forceinline__ bool has_round() const { return left + int(threadIdx.x % WARP) > 0; }
    __device__ __forceinline__ void next_round() { from += ROUND, to += ROUND, left -= ROUND; }
    __device__ __forceinline__ bool has(u32 k) const { return left > int(k * WARP); }
    // Loads word `k` of this round or, if it is `next`, of the following one. `once`: it is not
    // read again.
    __device__ __forceinline__ void load(uint4& word, u32 k, bool next, bool once) const {
        const u32 at = k * WARP + (next ? ROUND : 0);
        if (left > int(at)) word = once ? __ldcs(from + at) : __ldcg(from + at);
    }
    __device__ __forceinline__ void store(u32 k, const uint4& word) const {
        if (has(k)) __stcs(to + k * WARP, word);
    }
    // Loads the words of the first round.
    __device__ __forceinline__ void begin(uint4 (&words)[AT_ONCE], bool once) const {
#pragma unroll
        for (u32 k = 0; k < AT_ONCE; ++k) load(words[k], k, false, once);
    }
    // Calls `visit` with the place of each single pixel that this thread takes.
    template <typename Visit> __device__ __forceinline__ void singles(Visit visit) const {
        const u64 all = run.singles(), step = u64(parts) * EQUALIZING;
        for (u64 k = u64(number) * EQUALIZING + threadIdx.x; k < all; k += step) visit(run.single(k));
    }
};

// Counts a pixel that is not transparent.
template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void count_pixel(const Copies8& copies, const u32 (&in)[CHANNELS]) {
    if (has_alpha<CHANNELS>() && in[CHANNELS - 1] == 0) return;
    if (colours<CHANNELS>() == 1) {
        copies.plane(0).add_one(in[0]);
    } else if (BY_CHANNEL) {
#pragma unroll
        for (int c = 0; c < 3 && c < CHANNELS; ++c) copies.plane(c).add_one(in[c]);
    } else {
        copies.plane(0).add_one(luma(in[0], in[CHANNELS > 1 ? 1 : 0], in[CHANNELS > 2 ? 2 : 0]));
    }
}

template <int CHANNELS, bool BY_CHANNEL> __device__ __forceinline__ void count_pack(const Copies8& copies, const Pack<u8, CHANNELS>& pack) {
#pragma unroll
    for (int p = 0; p < Pack<u8, CHANNELS>::PIXELS; ++p) {
        u32 in[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = isolated<u8>(pack.word((p * CHANNELS + c) / 4), (p * CHANNELS + c) % 4);
        count_pixel<CHANNELS, BY_CHANNEL>(copies, in);
    }
}

// The way in which the words of a round are counted or mapped, while those of the next one are
// loaded. `stage`: 96 vectors of shared memory for each warp, only for luma of RGB.
//
// Whole pixels in each word:
template <int CHANNELS, bool BY_CHANNEL> struct Reader8 {
    typedef Part8<CHANNELS> Part;
    const Copies8& copies;

    __device__ __forceinline__ Reader8(const Copies8& copies, uint4*) : copies(copies) {}
    __device__ __forceinline__ void count(const Part& part, uint4 (&words)[Part::AT_ONCE]) const {
#pragma unroll
        for (u32 k = 0; k < Part::AT_ONCE; ++k) {
            const Pack<u8, CHANNELS> pack = {{words[k]}};
            if (part.has(k)) count_pack<CHANNELS, BY_CHANNEL>(copies, pack);
            part.load(words[k], k, true, false);
        }
    }
    __device__ __forceinline__ void map(const Part& part, uint4 (&words)[Part::AT_ONCE]) const {
#pragma unroll
        for (u32 k = 0; k < Part::AT_ONCE; ++k) {
            const Pack<u8, CHANNELS> pack = {{words[k]}};
            part.load(words[k], k, true, true);
            part.store(k, map_pack<CHANNELS, BY_CHANNEL, u8>(pack, copies).vector[0]);
        }
    }
};

// RGB by channel: the first sample of a lane's word `k` is of channel `lane + 2 * k`, and the rest
// follow in turn.
template <> struct Reader8<3, true> {
    typedef Part8<3> Part;
    SharedWords of[3];

    __device__ __forceinline__ Reader8(const Copies8& copies, uint4*)
        : of{copies.plane(threadIdx.x % WARP % 3), copies.plane((threadIdx.x % WARP + 1) % 3), copies.plane((threadIdx.x % WARP + 2) % 3)} {}
    __device__ __forceinline__ static u32 sample(const uint4& word, int i) {
        return isolated<u8>(i < 4 ? word.x : i < 8 ? word.y : i < 12 ? word.z : word.w, i % 4);
    }
    __device__ __forceinline__ void count(const Part& part, uint4 (&words)[3]) const {
#pragma unroll
        for (u32 k = 0; k < 3; ++k) {
#pragma unroll
            for (int i = 0; i < 16 && part.has(k); ++i) of[(2 * k + i) % 3].add_one(sample(words[k], i));
            part.load(words[k], k, true, false);
        }
    }
    __device__ __forceinline__ void map(const Part& part, uint4 (&words)[3]) const {
#pragma unroll
        for (u32 k = 0; k < 3; ++k) {
            u32 to[16];
            const uint4 word = words[k];
            part.load(words[k], k, true, true);
#pragma unroll
            for (int i = 0; i < 16; ++i) to[i] = of[(2 * k + i) % 3][sample(word, i)];
            part.store(k, make_uint4(joined<u8>(to), joined<u8>(to + 4), joined<u8>(to + 8), joined<u8>(to + 12)));
        }
    }
};

// Luma of RGB: a warp's words are exchanged to give each lane a pack.
template <> struct Reader8<3, false> {
    typedef Part8<3> Part;
    const Copies8& copies;
    uint4* stage;

    __device__ __forceinline__ Reader8(const Copies8& copies, uint4* stage) : copies(copies), stage(stage) {}
    __device__ __forceinline__ Pack<u8, 3> taken(const Part& part, uint4 (&words)[3], bool once) const {
        Pack<u8, 3> pack = {{words[0], words[1], words[2]}};
#pragma unroll
        for (u32 k = 0; k < 3; ++k) part.load(words[k], k, true, once);
        pack.in_order(stage);
        return pack;
    }
    __device__ __forceinline__ void count(const Part& part, uint4 (&words)[3]) const {
        const Pack<u8, 3> pack = taken(part, words, false);
        // A lane's pack begins two words further for each lane than its first word.
        if (part.left > int(2 * (threadIdx.x % WARP))) count_pack<3, false>(copies, pack);
    }
    __device__ __forceinline__ void map(const Part& part, uint4 (&words)[3]) const {
        Pack<u8, 3> pack = map_pack<3, false, u8>(taken(part, words, true), copies);
        pack.in_lines(stage);
#pragma unroll
        for (u32 k = 0; k < 3; ++k) part.store(k, pack.vector[k]);
    }
};

template <int CHANNELS> using Words8 = uint4[Part8<CHANNELS>::AT_ONCE];

// Counts a part with its first words in `words`. `mask`: null, or a byte for each pixel of the
// picture, 0 for pixels that do not count.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void count_part(
    Part8<CHANNELS>& part, Words8<CHANNELS>& words, const Copies8& copies, uint4* stage, const u8* mask = nullptr) {
    const Reader8<CHANNELS, BY_CHANNEL> reader(copies, stage);
    copies.clear();
    part.singles([&](u64 i) {
        if (mask && mask[i] == 0) return;
        u32 in[CHANNELS];
#pragma unroll
        for (int c = 0; c < CHANNELS; ++c) in[c] = part.pixels[i * CHANNELS + c];
        count_pixel<CHANNELS, BY_CHANNEL>(copies, in);
    });
    for (; part.has_round(); part.next_round()) reader.count(part, words);
}

// Sends a part with its first words in `words` through LUTs, which are in shared memory.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void map_part(Part8<CHANNELS>& part, Words8<CHANNELS>& words, const Copies8& copies, uint4* stage, const u8* luts) {
    const Reader8<CHANNELS, BY_CHANNEL> reader(copies, stage);
    copies.set(luts);
    part.singles([&](u64 i) { map_single<CHANNELS, BY_CHANNEL>(part.pixels + i * CHANNELS, part.results + i * CHANNELS, copies); });
    for (; part.has_round(); part.next_round()) reader.map(part, words);
}

// Makes LUTs from counts. Each 256 threads of a block make one: thread `i` of them makes the entry
// of level `i` from its `count`. `plane`: its number among those with a reference. `wanted`:
// whether these threads make one; at most the first `AT_ONCE` times 256 may. Called by all threads
// of the block.
template <int AT_ONCE> __device__ __forceinline__ u32 made_level8(const Rule& rule, u64 count, u32 plane, bool wanted) {
    __shared__ u64 of_warp[WARP], sums[AT_ONCE * 256];
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    u64 sum = warp_scan(count);
    if (lane == WARP - 1) of_warp[warp] = sum;
    __syncthreads();
    for (u32 other = warp / 8 * 8; other < warp; ++other) sum += of_warp[other];
    if (wanted) sums[threadIdx.x] = sum;
    __syncthreads();
    if (!wanted) return 0;
    const u64* running = sums + threadIdx.x / 256 * 256;
    return Curve(rule, running[255], 256, plane, ByThread{running, 256}).level(threadIdx.x % 256, sum);
}

// Makes the LUTs of a picture from its counts, in a block of `EQUALIZING` threads.
template <u32 PLANES> __device__ __forceinline__ void make_luts8(const Rule& rule, const u32* counts, u8* luts) {
    constexpr u32 AT_ONCE = EQUALIZING / 256 < PLANES ? EQUALIZING / 256 : PLANES;
#pragma unroll 1
    for (u32 first = 0; first < PLANES * 256; first += AT_ONCE * 256) {
        const u32 at = first + threadIdx.x;
        const bool wanted = threadIdx.x < AT_ONCE * 256 && at < PLANES * 256;
        const u32 level = made_level8<AT_ONCE>(rule, wanted ? __ldcg(counts + at) : 0, at / 256, wanted);
        if (wanted) luts[at] = u8(level);
        __syncthreads();
    }
}

// Makes a LUT from the counts of each plane. Grid: x = all planes; a picture has `planes`
// consecutive ones. Block: 256.
template <typename C> __device__ __forceinline__ void luts8(const C* histograms, const Rule& rule, u32 planes, u8* luts) {
    const u64 at = blockIdx.x * 256ull + threadIdx.x;
    luts[at] = u8(made_level8<1>(rule, histograms[at], blockIdx.x % planes, true));
}
extern "C" __global__ void __launch_bounds__(256) luts8_of_counts(const u32* histograms, Rule rule, u32 planes, u8* luts) {
    luts8(histograms, rule, planes, luts);
}
extern "C" __global__ void __launch_bounds__(256) luts8_of_sums(const u64* histograms, Rule rule, u32 planes, u8* luts) {
    luts8(histograms, rule, planes, luts);
}

// Counts the last of `channels` channels, even if it is no alpha.
extern "C" __global__ void __launch_bounds__(1024) count_alpha8(
    Pictures pictures, u32 channels, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {
    __shared__ uint4 memory[256 * 32 / 4];
    const Copies8 copies(memory, 1, 32);
    const u8* alpha = pictures.source<u8>(blockIdx.y) + channels - 1;
    copies.clear();
    for (u64 i = thread_of_grid(); i < pictures.pixels; i += threads_of_grid()) {
        if (mask == nullptr || mask[blockIdx.y * mask_pitch + i]) copies.plane(0).add_one(alpha[i * channels]);
    }
    __syncthreads();
    copies.add_to(histograms + blockIdx.y * u64(stride));
}

// The division of pictures among the blocks of `equalize8`. A block takes one unit after another,
// in the order of their tickets: units count a part of a picture or map one. A unit that maps waits
// until its picture is counted, which other blocks do already, as those units have lower tickets.
// Hence no unit waits for one that has not begun, however few blocks run at once.
struct Tickets {
    // Pictures; parts of each; the lead: the number of counting units before the first mapping one,
    // in addition to those of a picture.
    u32 number, parts, lead;
    u32 copies;
    // Zero before: the tickets taken; for each picture, the number of parts that have been counted,
    // and its histograms.
    u32* taken;
    u32* counted;
    u32* counts;

    __device__ __forceinline__ u32 units() const { return 2 * number * parts; }
};

struct Unit8 {
    bool counts;
    u32 picture, part;

    __device__ __forceinline__ Unit8(const Tickets& t, u32 ticket) : counts(false), picture(0), part(0) {
        if (ticket >= t.units()) return;
        const u32 half = t.number * t.parts, ahead = min(t.parts + t.lead, half), rest = half - ahead;
        u32 number = ticket;
        counts = ticket < ahead;
        if (!counts) {
            const u32 k = ticket - ahead;
            counts = k < 2 * rest && k % 2;
            number = counts ? ahead + k / 2 : k < 2 * rest ? k / 2 : k - rest;
        }
        picture = number / t.parts, part = number % t.parts;
        // The part counted last is mapped first, since the L2 cache still holds it.
        if (!counts) part = t.parts - 1 - part;
    }
};

__device__ __forceinline__ void wait_for(const u32* value, u32 wanted) {
    if (threadIdx.x == 0) {
        while (*const_cast<volatile const u32*>(value) != wanted) {}
        __threadfence();
    }
    __syncthreads();
}

// Counts pictures and sends them through the LUTs that follow.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void equalize8(const Pictures& pictures, const Rule& rule, const Tickets& t) {
    constexpr u32 PLANES = BY_CHANNEL ? 3 : 1;
    extern __shared__ uint4 memory[];
    __shared__ u32 box;
    __shared__ u8 luts[PLANES * 256];
    const Copies8 copies(memory, PLANES, t.copies);
    uint4* stage = memory + copies.vectors();
    const bool is_first = threadIdx.x == 0;
    if (is_first) box = atomicAdd(t.taken, 1);
    __syncthreads();
    u32 ticket = box, following = 0;
    Unit8 unit(t, ticket);
    Part8<CHANNELS> part(pictures, unit.picture, unit.part, t.parts);
    Words8<CHANNELS> words;
    part.begin(words, !unit.counts);
    while (ticket < t.units()) {
        if (is_first) following = atomicAdd(t.taken, 1);
        const Unit8 done = unit;
        if (unit.counts) {
            count_part<CHANNELS, BY_CHANNEL>(part, words, copies, stage);
        } else {
            wait_for(t.counted + unit.picture, t.parts);
            make_luts8<PLANES>(rule, t.counts + u64(unit.picture) * copies.entries, luts);
            map_part<CHANNELS, BY_CHANNEL>(part, words, copies, stage, luts);
        }
        if (is_first) box = following;
        __syncthreads();
        // The first words of the next part are on their way while the counts of this one are added
        // up.
        ticket = box;
        unit = Unit8(t, ticket);
        part = Part8<CHANNELS>(pictures, unit.picture, unit.part, t.parts);
        if (ticket < t.units()) part.begin(words, !unit.counts);
        if (done.counts) copies.add_to(t.counts + u64(done.picture) * copies.entries);
        __syncthreads();
        if (done.counts && threadIdx.x == EQUALIZING - 1) {
            __threadfence();
            atomicAdd(t.counted + done.picture, 1);
        }
    }
}

// Counts the planes of pictures. Masks are `mask_pitch` bytes apart, and histograms `stride`
// counts.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void count8(const Pictures& pictures, u32 copies, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {
    extern __shared__ uint4 memory[];
    const Copies8 counters(memory, BY_CHANNEL ? 3 : 1, copies);
    Part8<CHANNELS> part(pictures, blockIdx.y, blockIdx.x, gridDim.x, mask);
    Words8<CHANNELS> words;
    part.begin(words, false);
    count_part<CHANNELS, BY_CHANNEL>(part, words, counters, memory + counters.vectors(), mask ? mask + blockIdx.y * mask_pitch : nullptr);
    __syncthreads();
    counters.add_to(histograms + blockIdx.y * u64(stride));
}

// Sends pictures through LUTs, from the last part to the first, as in `Unit8`. `make`, called by
// all threads, writes the LUTs to its argument.
template <int CHANNELS, bool BY_CHANNEL, typename Make>
__device__ __forceinline__ void map8_by(const Pictures& pictures, u32 copies, Make make) {
    extern __shared__ uint4 memory[];
    __shared__ u8 luts[(BY_CHANNEL ? 3 : 1) * 256];
    const Copies8 entries(memory, BY_CHANNEL ? 3 : 1, copies);
    Part8<CHANNELS> part(pictures, blockIdx.y, gridDim.x - 1 - blockIdx.x, gridDim.x);
    Words8<CHANNELS> words;
    part.begin(words, true);
    make(luts);
    map_part<CHANNELS, BY_CHANNEL>(part, words, entries, memory + entries.vectors(), luts);
}

// The LUTs of two pictures are `stride` entries apart.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void map8(const Pictures& pictures, u32 copies, const u8* given, u32 stride) {
    map8_by<CHANNELS, BY_CHANNEL>(pictures, copies, [=](u8* luts) {
        for (u32 i = threadIdx.x; i < (BY_CHANNEL ? 3 : 1) * 256; i += blockDim.x) luts[i] = given[blockIdx.y * u64(stride) + i];
        __syncthreads();
    });
}

// Sends a picture through the LUTs that follow from its counts. `next`: the counts of the next
// picture, which are zeroed.
template <int CHANNELS, bool BY_CHANNEL>
__device__ __forceinline__ void apply8(const Pictures& pictures, u32 copies, const Rule& rule, const u32* counts, u32* next) {
    for (u32 i = u32(thread_of_grid()); i < 3 * 256; i += u32(threads_of_grid())) next[i] = 0;
    map8_by<CHANNELS, BY_CHANNEL>(pictures, copies, [&](u8* luts) { make_luts8<BY_CHANNEL ? 3 : 1>(rule, counts, luts); });
}

// Grids of kernels without tickets: x = parts, y = pictures.
#define GLOBAL8(NAME, CHANNELS, BY_CHANNEL)                                                                                  \
    extern "C" __global__ void __launch_bounds__(EQUALIZING, BLOCKS) equalize8_##NAME(Pictures pictures, Rule rule, Tickets t) { \
        equalize8<CHANNELS, BY_CHANNEL>(pictures, rule, t);                                                                  \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(EQUALIZING, BLOCKS) count8_##NAME(                                          \
        Pictures pictures, u32 copies, const u8* mask, u64 mask_pitch, u32* histograms, u32 stride) {                        \
        count8<CHANNELS, BY_CHANNEL>(pictures, copies, mask, mask_pitch, histograms, stride);                                \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(EQUALIZING, BLOCKS) apply8_##NAME(                                          \
        Pictures pictures, u32 copies, Rule rule, const u32* counts, u32* next) {                                            \
        apply8<CHANNELS, BY_CHANNEL>(pictures, copies, rule, counts, next);                                                  \
    }                                                                                                                        \
    extern "C" __global__ void __launch_bounds__(EQUALIZING, BLOCKS) map8_##NAME(                                            \
        Pictures pictures, u32 copies, const u8* luts, u32 stride) {                                                         \
        map8<CHANNELS, BY_CHANNEL>(pictures, copies, luts, stride);                                                          \
    }
GLOBAL8(gray, 1, false)
GLOBAL8(gray_alpha, 2, false)
GLOBAL8(rgb_luma, 3, false)
GLOBAL8(rgb_channels, 3, true)
GLOBAL8(rgba_luma, 4, false)
GLOBAL8(rgba_channels, 4, true)
