// Checks whether the entropy-coded data of baseline JPEGs without restart markers are intact: every code is one of its table's, there are
// as many blocks as the frame requires, and nothing is left after them. `validate.rs` of the codec checks the same on the CPU,
// one picture after the other.
//
// After A. Weißenberger and B. Schmidt, Accelerating JPEG Decompression on GPUs (HiPC 2021): the data are cut into pieces, and a thread
// begins at each as if an MCU began there. Huffman codes synchronize by themselves, so most threads end where one that came from the front
// would. Then, in rounds, each thread whose predecessor ended elsewhere than this one began walks its piece again.

#include "common.cuh"

// Bytes of a piece, including stuffing. `PIECE` in `jpeg_scan.rs` of the lanes.
constexpr u32 PIECE = 256;

// Threads per block. `THREADS` there.
constexpr u32 THREADS = 256;

// Codes up to this length are looked up in a table.
constexpr u32 SHORT = 10;

constexpr u32 LONGEST = 16;

// Three components with two codes each (DC and AC). `MAX_CODES` there.
constexpr u32 MAX_CODES = 6;

// A Huffman code (T.81, annex C). Mirrored by `Code` in `jpeg_scan.rs` of the lanes.
struct Code {
    // By length: the exclusive upper bound, left-aligned in 16 bits, of the codes that are no longer.
    u32 end[LONGEST + 1];
    // By length: what to add to a code to get the index of its symbol.
    int place[LONGEST + 1];
    u8 symbols[256];
};

// A picture's scan. Mirrored by `Scan` in `jpeg_scan.rs` of the lanes.
struct Scan {
    const u8* data;
    // The numbers of the codes of a period's blocks, four bits each, the first block's lowest.
    u64 dc, ac;
    // Bytes of the data, up to the marker that follows.
    u32 bytes;
    // The number of blocks that intact data hold.
    u32 blocks;
    // The number of blocks after which the codes repeat.
    u32 period;
    // The index of its first piece among those of all pictures.
    u32 first_piece;
    // The number of codes, and how many of them, the first ones, are for DC.
    u32 codes, dc_codes;
    Code code[MAX_CODES];
};
static_assert(sizeof(Scan) == 2400, "as it is there");

// Returns whether this byte was stuffed after a data byte of all ones so that there is no marker (T.81, F.1.2.3).
__device__ __forceinline__ bool is_stuffing(const u8* data, u32 bytes, u32 byte) {
    return byte > 0 && byte < bytes && data[byte] == 0 && data[byte - 1] == 0xff;
}

// Returns what a symbol does: the bits that it takes with its value (5 bits), by how many coefficients it advances (7 bits), and whether
// the block ends there (1 bit). 0 is no symbol.
__device__ __forceinline__ u16 step(u32 symbol, u32 length, bool is_dc) {
    const u32 run = symbol >> 4, size = symbol & 15;
    if (is_dc) return (length + symbol) | 1 << 5;
    if (size > 0) return (length + size) | (run + 1) << 5;
    return length | (run == 15 ? 16 << 5 : 1 << 12);
}
__device__ __forceinline__ u32 bits_of(u32 step) { return step & 31; }
__device__ __forceinline__ u32 coefficients_of(u32 step) { return step >> 5 & 127; }
__device__ __forceinline__ bool ends_block(u32 step) { return step >> 12; }

// Returns the step of the symbol that these 16 bits begin with; 0 if there is no code of at most `most` bits.
__device__ u16 find_step(const Code& code, u32 next, u32 most, bool is_dc) {
    for (u32 length = 1; length <= most; ++length) {
        if (next < code.end[length]) {
            const int place = int(next >> (LONGEST - length)) + code.place[length];
            return step(code.symbols[place & 255], length, is_dc);
        }
    }
    return 0;
}

// Where a walk is: before bit `position` of the data, counting stuffing; in the block with index `block` in its period, of which `known`
// coefficients have been passed. The next byte is never a stuffed one.
struct Place {
    u32 position, block, known;

    __device__ u64 packed() const { return u64(position) << 32 | block << 8 | known; }
    static __device__ Place unpacked(u64 packed) {
        return {u32(packed >> 32), u32(packed) >> 8, u32(packed) & 255};
    }
};

// By `SHORT` bits, the step of the symbol that they begin with; 0 if its code is longer or there is none.
typedef u16 Steps[1 << SHORT];

// A walk along the data. Past their end it reads zeros.
struct Walk {
    const u8* data;
    const Code* codes;
    const Steps* steps;
    u64 dc, ac, buffer;
    u32 bytes, period, held, at, block, known;

    __device__ Walk(const Scan& scan, const Steps* steps, Place place)
        : data(scan.data), codes(scan.code), steps(steps), dc(scan.dc), ac(scan.ac), buffer(0), bytes(scan.bytes),
          period(scan.period), held(0), at(place.position / 8), block(place.block), known(place.known) {
        fill();
        skip(place.position % 8);
    }

    __device__ __forceinline__ void fill() {
        while (held <= 56) {
            const u32 byte = at < bytes ? data[at] : 0;
            buffer |= u64(byte) << (56 - held);
            held += 8;
            at += byte == 0xff ? 2 : 1;
        }
    }

    __device__ __forceinline__ void skip(u32 bits) {
        buffer <<= bits;
        held -= bits;
    }

    // Returns the position: back from the next byte to read, over the bits that are held.
    __device__ u32 position() const {
        u32 byte = at;
        for (u32 i = 0; i < held; i += 8) {
            --byte;
            if (is_stuffing(data, bytes, byte)) --byte;
        }
        return byte * 8 + (8 - held % 8) % 8;
    }

    // Returns whether the walk is before this byte. Stuffing among the held bits, which the first test ignores, only moves the position
    // back.
    __device__ __forceinline__ bool is_before(u32 byte) const {
        return at * 8 - held < byte * 8 || position() < byte * 8;
    }

    // Passes a symbol; returns how many blocks that ends. If there is no symbol, one bit is skipped as if an MCU began after it.
    __device__ __forceinline__ u32 next(bool& wrong) {
        fill();
        const bool is_dc = known == 0;
        const u32 number = (is_dc ? dc : ac) >> (4 * block) & 15;
        u16 step = steps[number][buffer >> (64 - SHORT)];
        if (step == 0) step = find_step(codes[number], u32(buffer >> 48), LONGEST, is_dc);
        const u32 leads = known + coefficients_of(step);
        if (step == 0 || leads > 64) {
            wrong = true;
            skip(1);
            block = known = 0;
            return 0;
        }
        skip(bits_of(step));
        const bool ends = leads == 64 || ends_block(step);
        known = ends ? 0 : leads;
        block = !ends ? block : block + 1 == period ? 0 : block + 1;
        return ends;
    }
};

// Fills the steps of each code. The threads that share them must then synchronize.
__device__ void make_steps(const Scan& scan, Steps* steps) {
    for (u32 i = threadIdx.x; i < scan.codes << SHORT; i += blockDim.x) {
        const u32 number = i >> SHORT, bits = i % (1 << SHORT);
        steps[number][bits] = find_step(scan.code[number], bits << (LONGEST - SHORT), SHORT, number < scan.dc_codes);
    }
}

// The highest bit of a piece's block count: something in the piece is no code.
constexpr u32 WRONG = 1u << 31;

// One round: each thread has one piece of picture `blockIdx.y`. `starts` and `ends` are packed places; in round 0 there are none yet.
extern "C" __global__ void __launch_bounds__(THREADS)
jpeg_scan_round(const Scan* scans, u64* starts, u64* ends, u32* counts, u32 round) {
    __shared__ Steps steps[MAX_CODES];
    const Scan& scan = scans[blockIdx.y];
    const u32 piece = blockIdx.x * blockDim.x + threadIdx.x;
    const u32 at = scan.first_piece + piece;
    u64 start = 0;
    bool go = piece < (scan.bytes + PIECE - 1) / PIECE;
    if (go && piece > 0) {
        const u32 byte = piece * PIECE;
        start = round > 0 ? ends[at - 1] : Place{8 * (byte + (scan.data[byte - 1] == 0xff)), 0, 0}.packed();
    }
    go = go && (round == 0 || start != starts[at]);
    if (!__syncthreads_or(go)) return;
    make_steps(scan, steps);
    __syncthreads();
    if (!go) return;
    Walk walk(scan, steps, Place::unpacked(start));
    u32 blocks = 0;
    bool wrong = false;
    const u32 end = min((piece + 1) * PIECE, scan.bytes);
    while (walk.is_before(end)) blocks += walk.next(wrong);
    starts[at] = start;
    ends[at] = Place{walk.position(), walk.block, walk.known}.packed();
    counts[at] = blocks | (wrong ? WRONG : 0);
}

// The verdict on a picture. UNCLEAR: there were too few rounds. Mirrored by `Verdict` in `jpeg_scan.rs` of the lanes.
enum Verdict : u32 { WHOLE = 1, DAMAGED = 2, UNCLEAR = 3 };

// Turns what the rounds have shown of picture `blockIdx.x` into a verdict. The piece with its last data byte, in which padding may look
// like symbols, is walked only here, for as many blocks as are left.
extern "C" __global__ void __launch_bounds__(THREADS)
jpeg_scan_verdict(const Scan* scans, const u64* starts, const u64* ends, const u32* counts, u32* verdicts) {
    __shared__ Steps steps[MAX_CODES];
    __shared__ u32 scratch[WARP];
    const Scan& scan = scans[blockIdx.x];
    const u32 byte = scan.bytes - 1 - is_stuffing(scan.data, scan.bytes, scan.bytes - 1);
    const u32 last = byte / PIECE, first = scan.first_piece;
    u32 blocks = 0;
    bool wrong = false, unclear = false;
    for (u32 piece = threadIdx.x; piece < last; piece += blockDim.x) {
        const u32 at = first + piece;
        unclear |= piece > 0 && starts[at] != ends[at - 1];
        wrong |= counts[at] >= WRONG;
        blocks += counts[at] % WRONG;
    }
    make_steps(scan, steps);
    wrong = __syncthreads_or(wrong);
    unclear = __syncthreads_or(unclear);
    blocks = block_sum(blocks, scratch);
    if (threadIdx.x > 0) return;
    bool damaged = wrong || blocks > scan.blocks;
    Walk walk(scan, steps, last > 0 ? Place::unpacked(ends[first + last - 1]) : Place{0, 0, 0});
    for (u32 left = scan.blocks - blocks; left > 0 && !damaged;) {
        damaged = !walk.is_before(scan.bytes);
        left -= walk.next(damaged);
    }
    // A block that began before the last piece may be incomplete. The walk must end within the last byte, whose remaining bits are padding,
    // without having taken bits from behind it.
    const u32 position = walk.position();
    damaged = damaged || walk.known > 0 || position <= byte * 8 || position > scan.bytes * 8;
    verdicts[blockIdx.x] = unclear ? UNCLEAR : damaged ? DAMAGED : WHOLE;
}
