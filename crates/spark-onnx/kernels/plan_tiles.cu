// Products on tensor cores, a block a tile of the result: convolution as an implicit GEMM, and linear layers.
//
//   M   positions of y: samples x rows x columns             N   channels of y, of one group
//   K   what a position sees: taps x channels of x, cut into pieces of 8
//
//   y[m, n] = f(sum over k of a[m, k] * w[k, n] + bias[n] [+ residual[m, n]])
//   a[m, piece] = 8 neighbouring channels of x at (row * stride - pad + piece.dy, column * stride - pad + piece.dx),
//                 zeros where that lies outside
//
//   for each tile of y, by 128 threads:
//     for each TILE_K of K:
//       copy the next TILE_M x TILE_K of a, in pieces, and TILE_K x TILE_N of w to shared memory, in the background
//       for each 16 of K:  ldmatrix brings rows of a, 16-byte loads bring w, mma adds their products to the sums
//     sums -> shared memory -> f -> y, a lane a channel
//
//              TILE_M x TILE_N x TILE_K   warps along M, N, K    for
//   64x64      64       64       32       2, 2, 1                many positions
//   32x32      32       32       64       1, 1, 4                few blocks: warps share K, their sums meet in the end
//   16x32      16       32      128       1, 1, 4                a vector or a few rows
//
// 1. `pieces` is a table among the constants: for each piece of K where it lies, relative to the position, and how many
//    bytes it has. No division while running, and windows of any kind cost the same.
// 2. The host has put w in the order of the fragments of mma: for 16 channels, for 16 of K, for each lane 16 bytes
//    (PTX ISA, "Matrix Fragments for mma.m16n8k16"). One load is the operand of two mma, and a tile is copied as it lies.
// 3. Two stages: while one is multiplied the next is under way.
// 4. The 16-byte pieces of a row of a are exchanged by the row, so that the eight rows that an ldmatrix reads lie in
//    different banks.
// 5. What the copy does not find it fills with zeros: rows beyond M, K's tail, pads. A zero meets a finite weight always:
//    weights that are not finite are `plan_conv`'s and `plan_matmul`'s.
// 6. `_by_element` is the same for x whose pixels do not begin at multiples of 16 bytes, or which holds bytes: the table
//    has an entry for each element of K, and threads bring elements instead of pieces.
//
// Operands are f16, sums those of the tensor cores: f32, truncated, in an order that NVIDIA does not state.
// Not yet run on real hardware. Deliberately absent: transposed convolutions, groups narrower than a piece, K split over blocks.
//
// instructions: HMMA.16816.F32 LDSM LDGSTS

#include "plan_math.cuh"

// Axes of views here: those of a batch, or of groups, then sample, row, column. Channels are side by side.
#define TILES_BATCH_AXES 5
#define TILES_SAMPLE 5
#define TILES_ROW 6
#define TILES_COLUMN 7

struct PlanTiles {
  PlanView x, y;
  PlanEpilogue epilogue;
  PlanPlace weights;
  unsigned long long pieces;  // the table, in bytes from the start of the constants
  long long weights_stride;   // bytes of one group
  unsigned groups;            // the last axis of the batch; the others have one position
  unsigned m, n;
  unsigned n_pieces, k_blocks;  // of 8 and of 16
  unsigned height, width, in_height, in_width;
  unsigned stride[2], pad[2];
  unsigned unused;
};

// Of the table.
struct PlanPiece {
  int dy, dx;
  int offset;  // elements of x, from the position's first
  unsigned bytes;
};

namespace {

constexpr unsigned THREADS = 128;
constexpr unsigned WARPS = 4;
constexpr unsigned STAGES = 2;
constexpr unsigned PIECE = 16;  // bytes
constexpr unsigned STRIP = 16;  // channels of a strip of w
constexpr unsigned K_BLOCK = 16;
constexpr unsigned K_BLOCK_BYTES = 32 * PIECE;  // of one strip
constexpr unsigned GAP = 8;  // floats between rows of sums, so that lanes write to different banks
constexpr int NOWHERE = -(1 << 30);  // a row that no tap brings back into the picture

template <unsigned TILE_M, unsigned TILE_N, unsigned TILE_K, unsigned ALONG_M, unsigned ALONG_N, unsigned ALONG_K>
struct Tile {
  static constexpr unsigned M = TILE_M, N = TILE_N, K = TILE_K;
  static constexpr unsigned WARPS_M = ALONG_M, WARPS_N = ALONG_N, WARPS_K = ALONG_K;
  static constexpr unsigned PIECES = K / 8;  // of a row of a
  static constexpr unsigned K_BLOCKS = K / K_BLOCK;
  static constexpr unsigned ROWS_APART = THREADS / PIECES;
  static constexpr unsigned ROWS = M / ROWS_APART;  // that one thread brings
  static constexpr unsigned W_PIECES = N / STRIP * K_BLOCKS * 32;
  static constexpr unsigned WARP_M = M / WARPS_M, WARP_N = N / WARPS_N;
  static constexpr unsigned ROW_TILES = WARP_M / 16, STRIPS = WARP_N / STRIP;
  static constexpr unsigned A_BYTES = M * K * 2, STAGE_BYTES = A_BYTES + N * K * 2;
  static constexpr unsigned SUM_ROW = N + GAP;
  static constexpr unsigned SUM_BYTES = WARPS_K * M * SUM_ROW * 4;
  static constexpr unsigned BYTES = STAGES * STAGE_BYTES > SUM_BYTES ? STAGES * STAGE_BYTES : SUM_BYTES;
  static_assert(WARPS_M * WARPS_N * WARPS_K == WARPS && K_BLOCKS % WARPS_K == 0, "warps share a stage evenly");

  // Where a piece of a row of a lies in its stage: trick 4.
  static __device__ __forceinline__ unsigned place(unsigned row, unsigned piece) {
    unsigned turn = PIECES == 4 ? row / 2 % 4 : row % 8;
    return (row * PIECES + (piece ^ turn)) * PIECE;
  }
};

// A row that a thread brings: the position's corner in x, and its first element.
struct Row {
  int y, x;
  long long first;
};

__device__ __forceinline__ Row row_of(const PlanTiles& tiles, unsigned m, long long group) {
  if (m >= tiles.m) return Row{NOWHERE, NOWHERE, 0};
  unsigned column = m % tiles.width, rest = m / tiles.width;
  unsigned row = rest % tiles.height, sample = rest / tiles.height;
  int y = static_cast<int>(row * tiles.stride[0]) - static_cast<int>(tiles.pad[0]);
  int x = static_cast<int>(column * tiles.stride[1]) - static_cast<int>(tiles.pad[1]);
  const long long* strides = tiles.x.strides;
  long long first = group + sample * strides[TILES_SAMPLE] + y * strides[TILES_ROW] + x * strides[TILES_COLUMN];
  return Row{y, x, first};
}

__device__ __forceinline__ bool is_inside(const PlanTiles& tiles, const Row& row, const PlanPiece& piece) {
  return static_cast<unsigned>(row.y + piece.dy) < tiles.in_height &&
         static_cast<unsigned>(row.x + piece.dx) < tiles.in_width;
}

__device__ __forceinline__ PlanPiece piece_at(const PlanPiece* pieces, unsigned index, unsigned n) {
  if (index >= n) return PlanPiece{0, 0, 0, 0};
  uint4 words = *reinterpret_cast<const uint4*>(pieces + index);
  return PlanPiece{static_cast<int>(words.x), static_cast<int>(words.y), static_cast<int>(words.z), words.w};
}

// One element of x as f16, exactly: bytes are whole numbers below 2^11.
__device__ __forceinline__ unsigned short half_at(const unsigned char* x, unsigned storage, long long index) {
  if (storage == PLAN_F16) return reinterpret_cast<const unsigned short*>(x)[index];
  return plan_half_of_float(plan_load(x, storage, index));
}

// Where an element of y, or of what is added to it, lies.
__device__ __forceinline__ long long position_of(const PlanTiles& tiles, const long long* strides, unsigned m,
                                                 unsigned group) {
  unsigned column = m % tiles.width, rest = m / tiles.width;
  unsigned row = rest % tiles.height, sample = rest / tiles.height;
  return group * strides[TILES_BATCH_AXES - 1] + sample * strides[TILES_SAMPLE] + row * strides[TILES_ROW] +
         column * strides[TILES_COLUMN];
}

template <class T, bool BY_ELEMENT>
__device__ __forceinline__ void multiply(const PlanBlocks& blocks, const PlanTiles& tiles, unsigned char* memory) {
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned warp_m = warp / T::WARPS_K / T::WARPS_N, warp_n = warp / T::WARPS_K % T::WARPS_N, warp_k = warp % T::WARPS_K;
  unsigned tiles_n = (tiles.n + T::N - 1) / T::N, tiles_m = (tiles.m + T::M - 1) / T::M;
  unsigned first_n = blockIdx.x % tiles_n * T::N, rest = blockIdx.x / tiles_n;
  unsigned first_m = rest % tiles_m * T::M, group = rest / tiles_m;

  const unsigned char* x = plan_read(blocks, tiles.x.place);
  const PlanPiece* pieces = reinterpret_cast<const PlanPiece*>(blocks.constants + tiles.pieces);
  unsigned my_piece = threadIdx.x % T::PIECES, my_row = threadIdx.x / T::PIECES;
  Row rows[T::ROWS];
#pragma unroll
  for (unsigned i = 0; i < T::ROWS; ++i) {
    unsigned m = first_m + my_row + i * T::ROWS_APART;
    rows[i] = row_of(tiles, m, group * tiles.x.strides[TILES_BATCH_AXES - 1]);
  }
  const unsigned char* w = plan_read(blocks, tiles.weights) + group * tiles.weights_stride;
  unsigned n_strips = (tiles.n + STRIP - 1) / STRIP;

  auto bring = [&](unsigned stage) {
    unsigned char* to = memory + stage % STAGES * T::STAGE_BYTES;
    unsigned at = stage * T::PIECES + my_piece;
    if constexpr (BY_ELEMENT) {
      unsigned short halves[T::ROWS][8];
#pragma unroll
      for (unsigned e = 0; e < 8; ++e) {
        PlanPiece piece = piece_at(pieces, 8 * at + e, 8 * tiles.n_pieces);
#pragma unroll
        for (unsigned i = 0; i < T::ROWS; ++i) {
          bool is_there = piece.bytes != 0 && is_inside(tiles, rows[i], piece);
          halves[i][e] = is_there ? half_at(x, tiles.x.place.storage, rows[i].first + piece.offset) : 0;
        }
      }
#pragma unroll
      for (unsigned i = 0; i < T::ROWS; ++i) {
        const unsigned short* h = halves[i];
        uint4 words = make_uint4(h[0] | h[1] << 16, h[2] | h[3] << 16, h[4] | h[5] << 16, h[6] | h[7] << 16);
        *reinterpret_cast<uint4*>(to + T::place(my_row + i * T::ROWS_APART, my_piece)) = words;
      }
    } else {
      PlanPiece piece = piece_at(pieces, at, tiles.n_pieces);
#pragma unroll
      for (unsigned i = 0; i < T::ROWS; ++i) {
        unsigned bytes = is_inside(tiles, rows[i], piece) ? piece.bytes : 0;
        const unsigned char* from = bytes == 0 ? x : x + 2 * (rows[i].first + piece.offset);
        copy_16_async_or_zeros(to + T::place(my_row + i * T::ROWS_APART, my_piece), from, bytes);
      }
    }
    unsigned first_block = stage * T::K_BLOCKS;
#pragma unroll
    for (unsigned i = 0; i < T::W_PIECES / THREADS; ++i) {
      unsigned piece_idx = threadIdx.x + i * THREADS;
      unsigned strip = piece_idx / (32 * T::K_BLOCKS), inside = piece_idx % (32 * T::K_BLOCKS);
      unsigned w_strip = first_n / STRIP + strip, block = first_block + inside / 32;
      bool is_there = w_strip < n_strips && block < tiles.k_blocks;
      unsigned long long offset = static_cast<unsigned long long>(w_strip) * tiles.k_blocks * K_BLOCK_BYTES +
                                  first_block * K_BLOCK_BYTES + inside * PIECE;
      copy_16_async_or_zeros(to + T::A_BYTES + piece_idx * PIECE, is_there ? w + offset : w, is_there ? PIECE : 0);
    }
  };

  float sums[T::ROW_TILES][2 * T::STRIPS][4] = {};
  unsigned n_stages = (tiles.k_blocks + T::K_BLOCKS - 1) / T::K_BLOCKS;
  if (n_stages > 0) bring(0);
  commit_copies();
  for (unsigned stage = 0; stage < n_stages; ++stage) {
    if (stage + 1 < n_stages) bring(stage + 1);
    // Also where nothing was copied: waiting for all groups but one then means this stage.
    commit_copies();
    wait_copies_but_one();
    __syncthreads();
    const unsigned char* from = memory + stage % STAGES * T::STAGE_BYTES;
#pragma unroll
    for (unsigned step = 0; step < T::K_BLOCKS / T::WARPS_K; ++step) {
      unsigned block = warp_k * (T::K_BLOCKS / T::WARPS_K) + step;
      unsigned a[T::ROW_TILES][4], b[T::STRIPS][4];
#pragma unroll
      for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
        unsigned row = warp_m * T::WARP_M + 16 * tile + lane % 16;
        load_matrix_x4(a[tile], from + T::place(row, 2 * block + lane / 16));
      }
#pragma unroll
      for (unsigned strip = 0; strip < T::STRIPS; ++strip) {
        unsigned at = (warp_n * T::STRIPS + strip) * T::K_BLOCKS + block;
        uint4 words = *reinterpret_cast<const uint4*>(from + T::A_BYTES + at * K_BLOCK_BYTES + lane * PIECE);
        b[strip][0] = words.x;
        b[strip][1] = words.y;
        b[strip][2] = words.z;
        b[strip][3] = words.w;
      }
#pragma unroll
      for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
#pragma unroll
        for (unsigned column = 0; column < 2 * T::STRIPS; ++column) {
          float* sum = sums[tile][column];
          mma_m16n8k16_f16(sum, a[tile], b[column / 2] + column % 2 * 2, sum);
        }
      }
    }
    // The next round, or the sums, overwrite what was just read.
    __syncthreads();
  }

  float* all_sums = reinterpret_cast<float*>(memory);
#pragma unroll
  for (unsigned tile = 0; tile < T::ROW_TILES; ++tile) {
#pragma unroll
    for (unsigned column = 0; column < 2 * T::STRIPS; ++column) {
#pragma unroll
      for (unsigned half = 0; half < 2; ++half) {
        unsigned row = warp_m * T::WARP_M + 16 * tile + 8 * half + lane / 4;
        unsigned at = warp_n * T::WARP_N + 8 * column + lane % 4 * 2;
        float* to = all_sums + (warp_k * T::M + row) * T::SUM_ROW + at;
        *reinterpret_cast<float2*>(to) = make_float2(sums[tile][column][2 * half], sums[tile][column][2 * half + 1]);
      }
    }
  }
  __syncthreads();

  unsigned char* y = plan_write(blocks, tiles.y.place);
#pragma unroll 1
  for (unsigned idx = threadIdx.x; idx < T::M * T::N; idx += THREADS) {
    unsigned row = idx / T::N, column = idx % T::N;
    unsigned m = first_m + row, n = first_n + column;
    if (m >= tiles.m || n >= tiles.n) continue;
    float sum = all_sums[row * T::SUM_ROW + column];
#pragma unroll
    for (unsigned part = 1; part < T::WARPS_K; ++part) sum += all_sums[(part * T::M + row) * T::SUM_ROW + column];
    // Before the epilogue, whose functions call others: what lives through a call costs registers.
    long long to = position_of(tiles, tiles.y.strides, m, group) + n;
    long long residual = 0;
    if (tiles.epilogue.flags & PLAN_HAS_RESIDUAL) {
      residual = position_of(tiles, tiles.epilogue.residual.strides, m, group) + n;
    }
    float value = plan_epilogue(blocks, tiles.epilogue, sum, group * tiles.n + n, residual);
    plan_store(y, tiles.y.place.storage, to, value);
  }
}

}  // namespace

// One kernel of these extents; the signature stands before it, where tools that read sources find it.
#define TILES_BODY(by_element, ...)                                        \
  __shared__ __align__(16) unsigned char memory[Tile<__VA_ARGS__>::BYTES]; \
  PlanBlocks blocks{arena, outputs, inputs, constants};                    \
  multiply<Tile<__VA_ARGS__>, by_element>(blocks, tiles, memory)

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_64x64(PLAN_BLOCKS, PlanTiles tiles) {
  TILES_BODY(false, 64, 64, 32, 2, 2, 1);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_32x32(PLAN_BLOCKS, PlanTiles tiles) {
  TILES_BODY(false, 32, 32, 64, 1, 1, 4);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_16x32(PLAN_BLOCKS, PlanTiles tiles) {
  TILES_BODY(false, 16, 32, 128, 1, 1, 4);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_64x64_by_element(PLAN_BLOCKS, PlanTiles tiles) {
  TILES_BODY(true, 64, 64, 32, 2, 2, 1);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_32x32_by_element(PLAN_BLOCKS, PlanTiles tiles) {
  TILES_BODY(true, 32, 32, 64, 1, 1, 4);
}
