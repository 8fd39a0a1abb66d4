// Coder of quantized coefficients of JPEGs: it counts the symbols of a sample, from which the host
// makes Huffman codes, and writes the bits of all blocks, with stuffing and restart markers. The
// bytes are those of `write_sequential.rs` of the codec.
//
// The blocks of each restart interval are cut into chunks. The bits of a chunk are counted first,
// so that the place of each is known, and then put there.

#include "jpeg.cuh"

// Threads per block, each with a block of coefficients or a run of bytes. `THREADS` in the lanes.
constexpr u32 THREADS = 256;

// Bytes per thread when bytes are stuffed.
constexpr u32 RUN = 16;

// A table for the DC and one for the AC coefficients of the first component, and of the others. By
// symbol: its code, and from bit 16 on the length of that. Mirrored by `Codebook` in the lanes.
struct Codebook {
    u32 dc[2][256], ac[2][256];
};

// How often each symbol occurs. Mirrored by `Symbols` in the lanes.
struct Symbols {
    u32 dc[2][256], ac[2][256];
};

// Tables and memory for coding a picture. Mirrored by `Coding` in the lanes.
struct Coding {
    const Codebook* codebook;
    Symbols* symbols;
    // By block: the number of bits before it in its chunk.
    u32* offsets;
    // By chunk: its bits; then the bits before it, from the first of the picture on, with those
    // that complete the last byte of each interval.
    u64* chunks;
    // By interval: the bytes before its end, from the first of the picture on.
    u32* ends;
    // The bytes without stuffing, zero before; sixteen more can be read.
    u32* raw;
    // By tile of `THREADS` runs: its bytes with stuffing and markers; then the bytes before it.
    u32* tiles;
    u8* out;
    // Room in `raw` and in `out`, in bytes; and the length of the result in `out`.
    u32 raw_room, room;
    u32* length;
    // Every so many rows of blocks are sampled.
    u32 sample_step;
    // Chunks of an interval.
    u32 interval_chunks;
};
static_assert(sizeof(Coding) == 88, "as it is there");

// The bits that stand for a value, and their number (T.81, F.1.2.1).
__device__ __forceinline__ u32 size_of_value(int value) { return 32 - __clz(value < 0 ? -value : value); }
__device__ __forceinline__ u32 bits_of_value(int value, u32 size) { return u32(value + (value >> 31)) & ((1u << size) - 1); }

// Passes the symbols of a block to `take`, AC coefficients only: each with the bits that follow its
// code, and their number.
template <typename Take> __device__ __forceinline__ void visit_ac(const short* block, Take take) {
    const int4* words = reinterpret_cast<const int4*>(block);
    u32 zeros = 0;
#pragma unroll 1
    for (int i = 0; i < 8; ++i) {
        const int4 eight = words[i];
        if (i > 0 && !(eight.x | eight.y | eight.z | eight.w)) {
            zeros += 8;
            continue;
        }
        const int word[4] = {eight.x, eight.y, eight.z, eight.w};
#pragma unroll
        for (int j = 0; j < 8; ++j) {
            if (i == 0 && j == 0) continue;
            const int value = short(word[j / 2] >> 16 * (j & 1));
            if (value == 0) {
                ++zeros;
                continue;
            }
            for (; zeros > 15; zeros -= 16) take(0xf0, 0, 0);
            const u32 size = size_of_value(value);
            take(zeros << 4 | size, bits_of_value(value, size), size);
            zeros = 0;
        }
    }
    if (zeros > 0) take(0, 0, 0);
}

// Returns the number of a component's block in the order of the data.
__device__ __forceinline__ u32 block_at(const Picture& picture, const Component& of, u32 x, u32 y) {
    const u32 mcu = y / of.mcu_down * picture.mcus_across + x / of.mcu_across;
    return mcu * picture.mcu_blocks + of.first + y % of.mcu_down * of.mcu_across + x % of.mcu_across;
}

// Counts the symbols in a sample of a picture: every `sample_step`-th row of blocks of each
// component. Grid: x = sampled rows of a component at most, y = pictures, z = components.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_symbols(const Picture* pictures, const Coding* codings) {
    __shared__ u32 dc_counts[16], ac_counts[256];
    const Picture& picture = pictures[blockIdx.y];
    const Coding& coding = codings[blockIdx.y];
    const u32 y = blockIdx.x * coding.sample_step;
    if (blockIdx.z >= picture.components || y >= picture.component[blockIdx.z].down || picture.finding->faults) return;
    const Component of = picture.component[blockIdx.z];
    ac_counts[threadIdx.x] = 0;
    if (threadIdx.x < 16) dc_counts[threadIdx.x] = 0;
    __syncthreads();
    for (u32 x = threadIdx.x; x < of.across; x += THREADS) {
        const u32 block = block_at(picture, of, x, y);
        // The differences run on from one sampled row to the next.
        int before = 0;
        if (x > 0) {
            before = picture.dc[block_at(picture, of, x - 1, y)];
        } else if (y > 0) {
            before = picture.dc[block_at(picture, of, of.across - 1, y - coding.sample_step)];
        }
        atomicAdd(dc_counts + size_of_value(picture.dc[block] - before), 1);
        visit_ac(picture.coefficients + u64(block) * 64, [&](u32 symbol, u32, u32) { atomicAdd(ac_counts + symbol, 1); });
    }
    __syncthreads();
    Symbols& symbols = *coding.symbols;
    const u32 which = blockIdx.z > 0;
    if (ac_counts[threadIdx.x]) atomicAdd(&symbols.ac[which][threadIdx.x], ac_counts[threadIdx.x]);
    if (threadIdx.x < 16 && dc_counts[threadIdx.x]) atomicAdd(&symbols.dc[which][threadIdx.x], dc_counts[threadIdx.x]);
}

// A block of coefficients, of those that a chunk has.
struct Chunked {
    u32 interval, block;
    bool exists, is_last;

    __device__ __forceinline__ Chunked(const Picture& picture, const Coding& coding) {
        interval = blockIdx.x / coding.interval_chunks;
        const u32 number = blockIdx.x % coding.interval_chunks * THREADS + threadIdx.x;
        const u32 blocks = interval < picture.number_of_intervals ? picture.blocks_in(interval) : 0;
        exists = number < blocks;
        is_last = number + 1 == blocks;
        block = exists ? picture.blocks_before(interval) + number : 0;
    }
};

// Returns the difference of a block's DC coefficient from the one of its component before it.
__device__ __forceinline__ int difference(const Picture& picture, u32 block) {
    const u32 mcu = block / picture.mcu_blocks, number = block % picture.mcu_blocks;
    const Component& of = picture.component[picture.of_block >> (4 * number) & 15];
    const int dc = picture.dc[block];
    if (number > of.first) return dc - picture.dc[block - 1];
    if (mcu % picture.interval_mcus == 0) return dc;
    return dc - picture.dc[block - picture.mcu_blocks + of.mcu_across * of.mcu_down - 1];
}

// Passes the codes and values of a block to `put`: at most 32 bits, and their number.
template <typename Put> __device__ __forceinline__ void visit_bits(const Picture& picture, const Codebook& codebook, u32 block, Put put) {
    const u32 which = (picture.of_block >> (4 * (block % picture.mcu_blocks)) & 15) > 0;
    const auto put_symbol = [&](u32 entry, u32 bits, u32 size) { put((entry & 0xffff) << size | bits, (entry >> 16) + size); };
    const int dc = difference(picture, block);
    const u32 size = size_of_value(dc);
    put_symbol(codebook.dc[which][size], bits_of_value(dc, size), size);
    const u32* ac = codebook.ac[which];
    visit_ac(picture.coefficients + u64(block) * 64, [&](u32 symbol, u32 bits, u32 size) { put_symbol(ac[symbol], bits, size); });
}

__device__ __forceinline__ void load_codebook(const Coding& coding, Codebook& codebook) {
    const u32* from = reinterpret_cast<const u32*>(coding.codebook);
    u32* to = reinterpret_cast<u32*>(&codebook);
    for (u32 i = threadIdx.x; i < sizeof(Codebook) / sizeof(u32); i += THREADS) to[i] = from[i];
    __syncthreads();
}

// Counts the bits of each block and each chunk. Grid: x = chunks, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_lengths(const Picture* pictures, const Coding* codings) {
    __shared__ Codebook codebook;
    __shared__ u32 scratch[WARP];
    const Picture& picture = pictures[blockIdx.y];
    const Coding& coding = codings[blockIdx.y];
    if (blockIdx.x >= picture.number_of_intervals * coding.interval_chunks || picture.finding->faults) return;
    load_codebook(coding, codebook);
    const Chunked my(picture, coding);
    u32 length = 0;
    if (my.exists) visit_bits(picture, codebook, my.block, [&](u32, u32 bits) { length += bits; });
    const u32 sum = block_scan(length, scratch);
    if (my.exists) coding.offsets[my.block] = sum - length;
    if (threadIdx.x == THREADS - 1) coding.chunks[blockIdx.x] = sum;
}

// Finds the places of chunks, and the ends of intervals. Grid: x = pictures. Block: 1024.
extern "C" __global__ void __launch_bounds__(1024) jpeg_places(const Picture* pictures, const Coding* codings) {
    __shared__ u64 scratch[WARP];
    __shared__ u64 total;
    const Picture& picture = pictures[blockIdx.x];
    const Coding& coding = codings[blockIdx.x];
    if (picture.finding->faults) return;
    const u32 chunks = coding.interval_chunks;
    const bool is_one = picture.number_of_intervals == 1;
    // Each thread has an interval or, if there is only one, a chunk of it.
    const u32 number = is_one ? chunks : picture.number_of_intervals;
    u64 before = 0;
    for (u32 first = 0; first < number; first += blockDim.x) {
        const u32 mine = first + threadIdx.x;
        u64 bits = 0;
        if (mine < number) {
            for (u32 i = 0; i < (is_one ? 1 : chunks); ++i) {
                u64& chunk = coding.chunks[is_one ? mine : mine * chunks + i];
                const u64 own = chunk;
                chunk = bits;
                bits += own;
            }
            if (!is_one) bits = (bits + 7) / 8 * 8;
        }
        const u64 sum = block_scan(bits, scratch) + before;
        if (mine < number) {
            for (u32 i = 0; i < (is_one ? 1 : chunks); ++i) coding.chunks[is_one ? mine : mine * chunks + i] += sum - bits;
            if (!is_one) coding.ends[mine] = u32(min(sum / 8, u64(~0u)));
        }
        if (threadIdx.x == blockDim.x - 1) total = sum;
        __syncthreads();
        before = total;
    }
    if (threadIdx.x > 0) return;
    const u64 bytes = (before + 7) / 8;
    if (is_one) coding.ends[0] = u32(min(bytes, u64(~0u)));
    if (bytes > coding.raw_room) atomicOr(&picture.finding->faults, Finding::TOO_LONG);
}

// Puts bits into words in the order of the bytes. The words at both ends are shared with other
// threads.
struct Bits {
    u32* word;
    u64 pending;
    u32 held;
    bool is_shared;

    __device__ __forceinline__ Bits(u32* raw, u64 at) : word(raw + at / 32), pending(0), held(u32(at % 32)), is_shared(true) {}
    __device__ __forceinline__ void put(u32 bits, u32 count) {
        pending |= u64(bits) << (64 - held - count);
        held += count;
        if (held < 32) return;
        const u32 whole = __byte_perm(u32(pending >> 32), 0, 0x0123);
        if (is_shared) {
            atomicOr(word, whole);
        } else {
            *word = whole;
        }
        is_shared = false;
        ++word;
        pending <<= 32;
        held -= 32;
    }
    __device__ __forceinline__ void finish() {
        if (held > 0) atomicOr(word, __byte_perm(u32(pending >> 32), 0, 0x0123));
    }
};

// Puts the bits of each block to their place. Grid: as for `jpeg_lengths`.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_bits(const Picture* pictures, const Coding* codings) {
    __shared__ Codebook codebook;
    const Picture& picture = pictures[blockIdx.y];
    const Coding& coding = codings[blockIdx.y];
    if (blockIdx.x >= picture.number_of_intervals * coding.interval_chunks || picture.finding->faults) return;
    load_codebook(coding, codebook);
    const Chunked my(picture, coding);
    if (!my.exists) return;
    const u64 start = coding.chunks[blockIdx.x] + coding.offsets[my.block];
    Bits bits(coding.raw, start);
    u32 length = 0;
    visit_bits(picture, codebook, my.block, [&](u32 some, u32 count) { bits.put(some, count), length += count; });
    if (my.is_last) {
        const u32 missing = u32(8 - (start + length) % 8) % 8;
        if (missing > 0) bits.put((1u << missing) - 1, missing);
    }
    bits.finish();
}

// A run of bytes without stuffing, and the first interval that ends after its beginning.
struct Run {
    u32 start, bytes, interval;

    __device__ __forceinline__ Run(const Picture& picture, const Coding& coding, u32 all) {
        start = (blockIdx.x * THREADS + threadIdx.x) * RUN;
        bytes = start < all ? min(RUN, all - start) : 0;
        u32 high = picture.number_of_intervals - 1;
        interval = 0;
        while (interval < high) {
            const u32 middle = (interval + high) / 2;
            if (coding.ends[middle] > start) {
                high = middle;
            } else {
                interval = middle + 1;
            }
        }
    }
    // Passes each byte to `put`, and whether an interval other than the last ends with it.
    template <typename Put> __device__ __forceinline__ void visit(const Picture& picture, const Coding& coding, Put put) const {
        if (bytes == 0) return;
        const uint4 words = reinterpret_cast<const uint4*>(coding.raw)[start / RUN];
        const u32 word[4] = {words.x, words.y, words.z, words.w};
        u32 current = interval, end = coding.ends[interval];
#pragma unroll
        for (u32 i = 0; i < RUN; ++i) {
            if (i >= bytes) return;
            const bool ends = start + i + 1 == end && current + 1 < picture.number_of_intervals;
            put(word[i / 4] >> 8 * (i % 4) & 255, ends, current);
            if (ends) end = coding.ends[++current];
        }
    }
};

__device__ __forceinline__ u32 raw_bytes(const Picture& picture, const Coding& coding) {
    return picture.finding->faults ? 0 : coding.ends[picture.number_of_intervals - 1];
}

// Counts the bytes of each tile with stuffing and markers. Grid: x = tiles, y = pictures.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_tiles(const Picture* pictures, const Coding* codings) {
    __shared__ u32 scratch[WARP];
    const Picture& picture = pictures[blockIdx.y];
    const Coding& coding = codings[blockIdx.y];
    const u32 all = raw_bytes(picture, coding);
    if (u64(blockIdx.x) * THREADS * RUN >= all) return;
    u32 bytes = 0;
    Run(picture, coding, all).visit(picture, coding, [&](u32 byte, bool ends, u32) { bytes += 1 + (byte == 0xff) + 2 * ends; });
    bytes = block_sum(bytes, scratch);
    if (threadIdx.x == 0) coding.tiles[blockIdx.x] = bytes;
}

// Finds the place of each tile. Grid: x = pictures. Block: 1024.
extern "C" __global__ void __launch_bounds__(1024) jpeg_tile_places(const Picture* pictures, const Coding* codings) {
    __shared__ u32 scratch[WARP];
    __shared__ u32 total;
    const Picture& picture = pictures[blockIdx.x];
    const Coding& coding = codings[blockIdx.x];
    const u32 tiles = (raw_bytes(picture, coding) + THREADS * RUN - 1) / (THREADS * RUN);
    u32 before = 0;
    for (u32 first = 0; first < tiles; first += blockDim.x) {
        const u32 mine = first + threadIdx.x;
        const u32 bytes = mine < tiles ? coding.tiles[mine] : 0;
        const u32 sum = block_scan(bytes, scratch) + before;
        if (mine < tiles) coding.tiles[mine] = sum - bytes;
        if (threadIdx.x == blockDim.x - 1) total = sum;
        __syncthreads();
        before = total;
    }
    if (threadIdx.x > 0) return;
    *coding.length = before;
    if (before > coding.room) atomicOr(&picture.finding->faults, Finding::TOO_LONG);
}

// Writes the bytes of each tile with stuffing and markers. Grid: as for `jpeg_tiles`.
extern "C" __global__ void __launch_bounds__(THREADS) jpeg_bytes(const Picture* pictures, const Coding* codings) {
    // A byte can be followed by a stuffed one and by a marker.
    __shared__ u32 staged[THREADS * RUN + 1];
    __shared__ u32 scratch[WARP];
    __shared__ u32 total;
    const Picture& picture = pictures[blockIdx.y];
    const Coding& coding = codings[blockIdx.y];
    const u32 all = raw_bytes(picture, coding);
    if (u64(blockIdx.x) * THREADS * RUN >= all) return;
    const Run run(picture, coding, all);
    u32 bytes = 0;
    run.visit(picture, coding, [&](u32 byte, bool ends, u32) { bytes += 1 + (byte == 0xff) + 2 * ends; });
    const u32 through = block_scan(bytes, scratch);
    if (threadIdx.x == THREADS - 1) total = through;
    u8* stage = reinterpret_cast<u8*>(staged) + (through - bytes);
    run.visit(picture, coding, [&](u32 byte, bool ends, u32 interval) {
        *stage++ = u8(byte);
        if (byte == 0xff) *stage++ = 0;
        if (ends) *stage++ = 0xff, *stage++ = u8(0xd0 + interval % 8);
    });
    __syncthreads();
    // Whole words, aligned at their destination, and single bytes around them.
    u8* to = coding.out + coding.tiles[blockIdx.x];
    const u32 lead = min(u32(0 - reinterpret_cast<u64>(to)) % 4, total), words = (total - lead) / 4, tail = lead + 4 * words;
    const u8* from = reinterpret_cast<const u8*>(staged);
    for (u32 i = threadIdx.x; i < words; i += THREADS) {
        reinterpret_cast<u32*>(to + lead)[i] = __funnelshift_r(staged[i], staged[i + 1], 8 * lead);
    }
    if (threadIdx.x < lead) to[threadIdx.x] = from[threadIdx.x];
    if (threadIdx.x < total - tail) to[tail + threadIdx.x] = from[tail + threadIdx.x];
}
