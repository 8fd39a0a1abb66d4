// Checks whether the entropy-coded data of baseline JPEGs without restart markers are intact: every code is one of its table's, there are
// as many blocks as the frame requires, and nothing is left after them. `validate.rs` of the codec checks the same on the CPU,
// one picture after the other.
//
// After A. Weißenberger and B. Schmidt, Accelerating JPEG Decompression on GPUs (HiPC 2021): the data are cut into pieces, and a thread
// begins at each as if an MCU began there. Huffman codes synchronize by themselves, so most threads end where one that came from the front
// would. Then, in rounds, each thread whose predecessor ended elsewhere than this one began walks its piece again.

#include "jpeg_walk.cuh"

// Threads per block. `THREADS` in `jpeg_scan.rs` of the lanes.
constexpr u32 THREADS = 256;

// A picture's scan. Mirrored by `Scan` in `jpeg_scan.rs` of the lanes.
struct Scan {
    const u8* data;
    // Bytes of the data, up to the marker that follows.
    u32 bytes;
    // The number of blocks that intact data hold.
    u32 blocks;
    // The index of its first piece among those of all pictures.
    u32 first_piece;
    u32 unused;
    Codes codes;
};
static_assert(sizeof(Scan) == 2408, "as it is there");

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
    make_steps(scan.codes, steps, threadIdx.x, blockDim.x);
    __syncthreads();
    if (!go) return;
    Walk walk(scan.data, scan.bytes, scan.codes, steps, Place::unpacked(start));
    u32 blocks = 0;
    bool wrong = false;
    const u32 end = min((piece + 1) * PIECE, scan.bytes);
    while (walk.is_before(end)) blocks += walk.next(wrong);
    starts[at] = start;
    ends[at] = walk.place().packed();
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
    make_steps(scan.codes, steps, threadIdx.x, blockDim.x);
    wrong = __syncthreads_or(wrong);
    unclear = __syncthreads_or(unclear);
    blocks = block_sum(blocks, scratch);
    if (threadIdx.x > 0) return;
    bool damaged = wrong || blocks > scan.blocks;
    Walk walk(scan.data, scan.bytes, scan.codes, steps, last > 0 ? Place::unpacked(ends[first + last - 1]) : Place{0, 0, 0});
    for (u32 left = scan.blocks - blocks; left > 0 && !damaged;) {
        damaged = !walk.is_before(scan.bytes);
        left -= walk.next(damaged);
    }
    // A block that began before the last piece may be incomplete.
    damaged = damaged || !walk.is_at_end();
    verdicts[blockIdx.x] = unclear ? UNCLEAR : damaged ? DAMAGED : WHOLE;
}
