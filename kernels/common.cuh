// The common parts of all kernels: sample types, 16-byte packs of pixels, luma, and block-wide
// sums.
//
// Everything is integer arithmetic or single IEEE operations in a fixed order, which makes every
// GPU produce the same bytes as the CPU. Written for compute capability 3.7 and newer; NVRTC
// compiles it without headers, hence our own types.

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;

constexpr u32 FULL_WARP = 0xffffffffu;
constexpr u32 WARP = 32;

template <typename S> __device__ constexpr u32 levels() { return 1u << (8 * sizeof(S)); }

// The number of values per pixel that are equalized separately: each colour, or one value (gray or
// luma); and whether there is alpha.
template <int CHANNELS> __device__ constexpr int colours() { return CHANNELS < 3 ? 1 : 3; }
template <int CHANNELS> __device__ constexpr bool has_alpha() { return CHANNELS == 2 || CHANNELS == 4; }

// The order of the two bytes of 16-bit samples in memory, as a selector for `__byte_perm`: this one
// is the machine's own.
enum : u32 { NATIVE = 0x3210 };

// The orders in which pixels are read, and in which they are written back.
struct ByteOrders {
    u32 from = NATIVE, to = NATIVE;
};

// Converts a sample, or a word of samples, from this order to the machine's, or back.
template <typename S> __device__ __forceinline__ u32 converted(u32 samples, u32 order) {
    return sizeof(S) == 1 ? samples : __byte_perm(samples, 0, order);
}

// Returns one sample of a word, in one instruction that the compiler does not merge with later
// computations.
template <typename S> __device__ __forceinline__ u32 isolated(u32 word, int number) {
    u32 sample;
    const u32 selector = sizeof(S) == 1 ? 0x4440 + number : 0x4410 + 0x22 * number;
    asm("prmt.b32 %0, %1, 0, %2;" : "=r"(sample) : "r"(word), "r"(selector));
    return sample;
}

// Words in shared memory at `from + number * step`. The address takes one instruction, where the
// compiler would use two or three.
struct SharedWords {
    u32 from, step;

    // Makes words of the one at `first` and those at steps of so many bytes after it.
    __device__ __forceinline__ SharedWords(const void* first, u32 step) : step(step) {
        asm("{ .reg .u64 t; cvta.to.shared.u64 t, %1; cvt.u32.u64 %0, t; }" : "=r"(from) : "l"(first));
    }
    __device__ __forceinline__ u32 address(u32 number) const {
        u32 at;
        asm("mad.lo.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(number), "r"(step), "r"(from));
        return at;
    }
    __device__ __forceinline__ void add_one(u32 number) const {
        asm volatile("red.shared.add.u32 [%0], 1;" ::"r"(address(number)) : "memory");
    }
    __device__ __forceinline__ u32 operator[](u32 number) const {
        u32 word;
        asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address(number)));
        return word;
    }
};

// Y of BT.601 in 16-bit fixed point. The weights add up to 2^16: even 16-bit white stays below
// 2^32.
__device__ __forceinline__ u32 luma(u32 r, u32 g, u32 b) { return (19595u * r + 38470u * g + 7471u * b + 32768u) >> 16; }

// The fewest whole pixels that fill whole 16-byte words: 16 bytes, or 48 for three channels. One
// thread handles a pack at a time.
//
// If each lane accessed its own 48-byte pack, a warp would touch memory at a stride of 48 bytes, a
// third of each memory line at a time. Instead, a warp moves its packs as whole lines, "raw": the
// words that a lane holds are then not those of its own pixels, until `in_order` exchanges them
// through shared memory. For 16-byte packs both are the same. Raw samples also have the bytes in
// the order of the memory.
template <typename S, int CHANNELS> struct Pack {
    static constexpr int VECTORS = CHANNELS == 3 ? 3 : 1;
    static constexpr int BYTES = 16 * VECTORS;
    static constexpr int PIXELS = BYTES / int(sizeof(S)) / CHANNELS;

    uint4 vector[VECTORS];

    // Returns sample `i` of the pack. `i` must be known at compile time, to keep the words in
    // registers.
    __device__ __forceinline__ u32 get(int i) const {
        constexpr int PER_WORD = 4 / sizeof(S);
        return (word(i / PER_WORD) >> (8 * sizeof(S) * (i % PER_WORD))) & (levels<S>() - 1);
    }
    // Stores a value as sample `i`. The samples of a word must be stored in ascending order.
    __device__ __forceinline__ void put(int i, u32 value) {
        constexpr int PER_WORD = 4 / sizeof(S);
        const u32 shifted = value << (8 * sizeof(S) * (i % PER_WORD));
        word(i / PER_WORD) = i % PER_WORD ? word(i / PER_WORD) | shifted : shifted;
    }
    __device__ __forceinline__ u32 word(int i) const {
        const uint4& v = vector[i / 4];
        return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
    }
    __device__ __forceinline__ u32& word(int i) {
        uint4& v = vector[i / 4];
        return i % 4 == 0 ? v.x : i % 4 == 1 ? v.y : i % 4 == 2 ? v.z : v.w;
    }
    // Loads the raw pack with this index of the `packs` at `pixels`. The lanes of a warp must load
    // neighbouring packs, all together. `once`: the data are not read again, and the L2 cache
    // should rather keep other data.
    __device__ __forceinline__ void load(const S* pixels, u64 index, u64 packs, bool once = false) {
        const uint4* from = reinterpret_cast<const uint4*>(pixels);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const u64 at = place(index, v);
            if (at < packs * VECTORS) vector[v] = once ? __ldcs(from + at) : from[at];
        }
    }
    // Stores a raw pack, with the same arguments as `load`.
    __device__ __forceinline__ void store(S* pixels, u64 index, u64 packs) const {
        uint4* to = reinterpret_cast<uint4*>(pixels);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) {
            const u64 at = place(index, v);
            if (at >= packs * VECTORS) continue;
            if (VECTORS == 1) {
                __stcs(to + at, vector[v]);  // it is not read again, as with `once`
            } else {
                to[at] = vector[v];
            }
        }
    }
    // Reorders from raw to pixel order, and bytes from `from`. `stage`: `VECTORS * 32` vectors for
    // each warp of the block.
    __device__ __forceinline__ void in_order(uint4* stage, u32 from = NATIVE) {
        convert(from);
        exchange(stage, WARP, 1, 1, VECTORS);
    }
    // Reorders from pixel order back to raw, and bytes to `to`.
    __device__ __forceinline__ void in_lines(uint4* stage, u32 to = NATIVE) {
        convert(to);
        exchange(stage, 1, VECTORS, WARP, 1);
    }

private:
    __device__ __forceinline__ void convert(u32 order) {
#pragma unroll
        for (int i = 0; sizeof(S) > 1 && i < 4 * VECTORS; ++i) word(i) = converted<S>(word(i), order);
    }
    __device__ __forceinline__ static u64 place(u64 index, int v) {
        return VECTORS == 1 ? index : index * VECTORS - threadIdx.x % WARP * (VECTORS - 1) + v * WARP;
    }
    __device__ __forceinline__ void exchange(uint4* stage, u32 put_step, u32 put_lane, u32 get_step, u32 get_lane) {
        if (VECTORS == 1) return;
        const u32 lane = threadIdx.x % WARP;
        uint4* mine = stage + threadIdx.x / WARP * (WARP * VECTORS);
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) mine[v * put_step + lane * put_lane] = vector[v];
        __syncwarp();
#pragma unroll
        for (int v = 0; v < VECTORS; ++v) vector[v] = mine[v * get_step + lane * get_lane];
        __syncwarp();
    }
};

// Threads per block of the kernels that work on packs, and the vectors of shared memory for
// exchanging their packs.
template <int CHANNELS> __device__ constexpr u32 block_threads() { return CHANNELS == 3 ? 512 : 1024; }
template <int CHANNELS> __device__ constexpr u32 stage_vectors() { return CHANNELS == 3 ? 3 * block_threads<CHANNELS>() : 1; }

// Returns the number of whole packs at `pixels`. It is 0 if they are not aligned to 16 bytes; the
// pixels are then processed one by one.
template <typename S, int CHANNELS> __device__ __forceinline__ u64 whole_packs(const S* pixels, u64 count) {
    return reinterpret_cast<u64>(pixels) % 16 ? 0 : count / Pack<S, CHANNELS>::PIXELS;
}

__device__ __forceinline__ u64 thread_of_grid() { return u64(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ __forceinline__ u64 threads_of_grid() { return u64(gridDim.x) * blockDim.x; }

// Returns the number of rounds in which every thread of the grid takes one pack.
__device__ __forceinline__ u64 rounds_of_grid(u64 packs) { return (packs + threads_of_grid() - 1) / threads_of_grid(); }

template <typename T> __device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int step = WARP / 2; step; step /= 2) value += __shfl_xor_sync(FULL_WARP, value, step);
    return value;
}

// Returns the sum of the values of this lane and all lanes before it.
template <typename T> __device__ __forceinline__ T warp_scan(T value) {
    const u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int step = 1; step < int(WARP); step *= 2) {
        const T before = __shfl_up_sync(FULL_WARP, value, step);
        if (lane >= step) value += before;
    }
    return value;
}

// Returns the sum over the block to every thread. `scratch`: 32 values for exclusive use meanwhile.
// blockDim.x: whole warps.
template <typename T> __device__ __forceinline__ T block_sum(T value, T* scratch) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncthreads();
    value = warp_sum(value);
    if (lane == 0) scratch[warp] = value;
    __syncthreads();
    return warp_sum(lane < blockDim.x / WARP ? scratch[lane] : T(0));
}

// Returns the sum of the values of this thread and all threads before it. Otherwise like
// `block_sum`.
template <typename T> __device__ __forceinline__ T block_scan(T value, T* scratch) {
    const u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    __syncthreads();
    value = warp_scan(value);
    if (lane == WARP - 1) scratch[warp] = value;
    __syncthreads();
    const T warps_before = warp_scan(lane < blockDim.x / WARP ? scratch[lane] : T(0));
    return value + (warp ? __shfl_sync(FULL_WARP, warps_before, warp - 1) : __shfl_sync(FULL_WARP, T(0), 0));
}

// Returns whether this block is the last to arrive of `blocks` blocks that share `arrived`. If so,
// it sees everything that the others wrote before, and `arrived` is reset to 0. Called by all
// threads of the block.
__device__ __forceinline__ bool last_of(u32 blocks, u32* arrived) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == blocks - 1;
        if (last) *arrived = 0;
    }
    __syncthreads();
    __threadfence();
    return last;
}
