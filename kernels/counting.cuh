// Counting: which values are counted, and counters in shared memory. Pixels whose alpha is 0 are not counted.

#pragma once
#include "common.cuh"

// Returns the value of pixel `p` of a pack that is counted in plane `plane`: that channel, or gray, or luma.
template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ u32 key(const Pack<S, CHANNELS>& pack, int p, int plane) {
    const int at = p * CHANNELS;
    if (colours<CHANNELS>() == 1) return pack.get(at);
    if (!BY_CHANNEL) return luma(pack.get(at), pack.get(at + 1), pack.get(at + 2));
    return plane == 0 ? pack.get(at) : plane == 1 ? pack.get(at + 1) : pack.get(at + 2);
}

template <int CHANNELS, bool BY_CHANNEL, typename S>
__device__ __forceinline__ u32 key(const S* pixel, int plane, u32 from = NATIVE) {
    auto sample = [=](int c) { return converted<S>(pixel[c], from); };
    if (colours<CHANNELS>() == 1) return sample(0);
    if (!BY_CHANNEL) return luma(sample(0), sample(1), sample(2));
    return sample(plane);
}

// Depth 8: a block's counters in shared memory, in several copies interleaved by lane. With 32 copies, no two lanes of a warp ever access
// the same bank, whatever the data; where shared memory has no room for that many, a few lanes may.
template <int CHANNELS, bool BY_CHANNEL> struct Counters8 {
    typedef Pack<u8, CHANNELS> P;
    static constexpr int PLANES = BY_CHANNEL ? 3 : 1;
    static constexpr u32 COPIES = BY_CHANNEL ? (CHANNELS == 3 ? 4 : 8) : CHANNELS == 3 ? 16 : 32;
    static constexpr u32 SIZE = PLANES * 256 * COPIES;

    u32* words;

    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < SIZE / 4; i += blockDim.x) reinterpret_cast<uint4*>(words)[i] = make_uint4(0, 0, 0, 0);
        __syncthreads();
    }
    __device__ __forceinline__ void add(int plane, u32 level) const {
        SharedWords<COPIES * 4>(words + plane * (256 * COPIES) + threadIdx.x % COPIES).add_one(level);
    }
    __device__ __forceinline__ void add(const P& pack) const {
#pragma unroll
        for (int p = 0; p < P::PIXELS; ++p) {
            if (has_alpha<CHANNELS>() && pack.get(p * CHANNELS + CHANNELS - 1) == 0) continue;
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane) add(plane, key<CHANNELS, BY_CHANNEL>(pack, p, plane));
        }
    }
    // Counts the pixels from `from` on, which are not in packs, over the whole grid.
    __device__ __forceinline__ void add_singles(const u8* pixels, u64 from, u64 count) const {
        for (u64 i = from + thread_of_grid(); i < count; i += threads_of_grid()) {
            const u8* pixel = pixels + i * CHANNELS;
            if (has_alpha<CHANNELS>() && pixel[CHANNELS - 1] == 0) continue;
#pragma unroll
            for (int plane = 0; plane < PLANES; ++plane) add(plane, key<CHANNELS, BY_CHANNEL>(pixel, plane));
        }
    }
    // Returns the count of a bin, whose copies lie in consecutive banks: each thread starts at a different copy.
    __device__ __forceinline__ u32 count(u32 bin) const {
        u32 sum = 0;
#pragma unroll
        for (u32 copy = 0; copy < COPIES; ++copy) sum += words[bin * COPIES + (copy + bin) % COPIES];
        return sum;
    }
    __device__ __forceinline__ void add_to(u32* histograms) const {
        __syncthreads();
        for (u32 bin = threadIdx.x; bin < PLANES * 256; bin += blockDim.x) {
            const u32 sum = count(bin);
            if (sum) atomicAdd(histograms + bin, sum);
        }
    }
};

// 16-bit counters, two to a word, for `range` levels from `from` on: 65536 of them fit into 128 KiB of shared memory. `settle`, called by
// the whole block, moves counts of 2^13 or more to `histogram`; so between two calls the block may add `BETWEEN` before a counter could
// reach 2^16.
struct HalfCounters {
    static constexpr u32 BETWEEN = 65535 - 8191;
    u32* words;
    u32 from, range;
    u32* histogram;

    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < range / 8; i += blockDim.x) reinterpret_cast<uint4*>(words)[i] = make_uint4(0, 0, 0, 0);
        __syncthreads();
    }
    __device__ __forceinline__ void add(u32 level, u32 times) const {
        if (level - from < range) add_within(level - from, times);
    }
    // Two counters a word: the address is twice the even number, and an odd one adds to the upper half.
    __device__ __forceinline__ void add_within(u32 at, u32 times) const {
        const u32 address = SharedWords<1>(words).address(2 * (at & ~1u)), amount = times + (at & 1) * (65535 * times);
        asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(amount) : "memory");
    }
    // A pack with pixels of only one level is added at once, so that flat regions do not queue for one counter.
    template <int CHANNELS, bool BY_CHANNEL>
    __device__ __forceinline__ void add_pack(const Pack<u16, CHANNELS>& pack, int plane) const {
        constexpr int PIXELS = Pack<u16, CHANNELS>::PIXELS;
        u32 level[PIXELS];
        bool flat = !has_alpha<CHANNELS>();
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            level[p] = key<CHANNELS, BY_CHANNEL>(pack, p, plane);
            flat &= level[p] == level[0];
        }
        if (flat) return add(level[0], PIXELS);
#pragma unroll
        for (int p = 0; p < PIXELS; ++p) {
            if (!has_alpha<CHANNELS>() || pack.get(p * CHANNELS + CHANNELS - 1)) add(level[p], 1);
        }
    }
    // Returns the counts of four levels from `at` on, a multiple of 4.
    __device__ __forceinline__ uint4 counts(u32 at) const {
        if (at >= range) return make_uint4(0, 0, 0, 0);
        const uint2 v = *reinterpret_cast<const uint2*>(words + at / 2);
        return make_uint4(v.x & 0xffff, v.x >> 16, v.y & 0xffff, v.y >> 16);
    }
    // Returns whether this thread moved any.
    __device__ __forceinline__ bool settle() const {
        bool moved = false;
        __syncthreads();
        for (u32 q = threadIdx.x; q < range / 8; q += blockDim.x) {
            const uint4 v = reinterpret_cast<const uint4*>(words)[q];
            if (((v.x | v.y | v.z | v.w) & 0xe000e000u) == 0) continue;
            moved = true;
            for (u32 at = 4 * q; at < 4 * q + 4; ++at) {
                const u32 word = words[at];
                const u32 taken = word & ((word & 0xe000 ? 0xffff : 0) | (word & 0xe0000000u ? 0xffff0000u : 0));
                words[at] = word - taken;
                if (taken & 0xffff) atomicAdd(histogram + from + 2 * at, taken & 0xffff);
                if (taken >> 16) atomicAdd(histogram + from + 2 * at + 1, taken >> 16);
            }
        }
        __syncthreads();
        return moved;
    }
    // Adds all counts to `histogram`; the 32 words of a warp go out as two runs of 32 neighbouring counts. Blocks that finish together
    // start at different places.
    __device__ __forceinline__ void move_all() const {
        __syncthreads();
        const u32 lane = threadIdx.x % WARP, size = range / 2, turn = blockIdx.x * blockDim.x % size;
        for (u32 i = threadIdx.x; i < size; i += blockDim.x) {
            const u32 at = i + turn < size ? i + turn : i + turn - size;
            const u32 word = words[at];
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const u32 pair = __shfl_sync(FULL_WARP, word, half * 16 + lane / 2);
                const u32 count = lane % 2 ? pair >> 16 : pair & 0xffff;
                if (count) atomicAdd(histogram + from + 2 * (at - lane) + half * WARP + lane, count);
            }
        }
    }
};
