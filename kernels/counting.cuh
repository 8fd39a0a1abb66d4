// Counting: the counted values, and counters in shared memory. Pixels with an alpha of 0 are not
// counted.

#pragma once
#include "common.cuh"

// Returns the value of pixel `p` of a pack that is counted in plane `plane`: that channel, or gray,
// or luma.
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

// Depth 8: a block's counters in shared memory and, once these have been added up, LUT entries, in
// copies interleaved by lane. With 32 copies, no two lanes of a warp ever access the same bank, for
// any data; if shared memory has no room for that many, a few lanes may. `copies`: a power of 2
// from 4 on.
struct Copies8 {
    uint4* memory;
    u32 entries, copies;

    __device__ __forceinline__ Copies8(uint4* memory, u32 planes, u32 copies) : memory(memory), entries(256 * planes), copies(copies) {}
    // Returns this lane's copy of a plane's counters or entries.
    __device__ __forceinline__ SharedWords plane(u32 number) const {
        return SharedWords(reinterpret_cast<u32*>(memory) + (number * 256 * copies + (threadIdx.x & (copies - 1))), 4 * copies);
    }
    __device__ __forceinline__ u32 vectors() const { return entries * copies / 4; }
    __device__ __forceinline__ void clear() const {
        for (u32 i = threadIdx.x; i < vectors(); i += blockDim.x) memory[i] = make_uint4(0, 0, 0, 0);
        __syncthreads();
    }
    // Returns the sum of a counter's copies: the threads that access the same banks together begin
    // at different ones.
    __device__ __forceinline__ u32 count(u32 entry) const {
        const u32 last = copies / 4 - 1, first = entry * (copies / 4);
        u32 sum = 0;
        for (u32 k = 0; k <= last; ++k) {
            const uint4 some = memory[first + ((k + first / 8) & last)];
            sum += some.x + some.y + some.z + some.w;
        }
        return sum;
    }
    __device__ __forceinline__ void add_to(u32* histograms) const {
        for (u32 entry = threadIdx.x; entry < entries; entry += blockDim.x) {
            const u32 sum = count(entry);
            if (sum) atomicAdd(histograms + entry, sum);
        }
    }
    // Sets them to the entries of `luts`, which are in shared memory too.
    __device__ __forceinline__ void set(const u8* luts) const {
        const u32 shift = __ffs(copies / 4) - 1;
        for (u32 i = threadIdx.x; i < vectors(); i += blockDim.x) {
            const u32 value = luts[i >> shift];
            memory[i] = make_uint4(value, value, value, value);
        }
        __syncthreads();
    }
};

// 16-bit counters, two to a word, for `range` levels from `from` on: 65536 of them fit into 128 KiB
// of shared memory. `settle`, called by the whole block, moves counts of 2^13 or more to
// `histogram`: between two calls the block may add `BETWEEN` before a counter could reach 2^16.
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
    // Two counters a word: the address is twice the even number, and an odd one adds to the upper
    // half.
    __device__ __forceinline__ void add_within(u32 at, u32 times) const {
        const u32 address = SharedWords(words, 1).address(2 * (at & ~1u)), amount = times + (at & 1) * (65535 * times);
        asm volatile("red.shared.add.u32 [%0], %1;" ::"r"(address), "r"(amount) : "memory");
    }
    // A pack with pixels of only one level is added at once, to keep flat regions from queuing for
    // one counter.
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
    // Returns whether this thread moved any counts.
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
    // Adds all counts to `histogram`; the 32 words of a warp go out as two runs of 32 neighbouring
    // counts. Blocks that finish together start at different places.
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
