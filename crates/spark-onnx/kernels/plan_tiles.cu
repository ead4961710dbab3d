// Products on tensor cores, a block a tile of the result: convolution as an implicit GEMM, and linear layers.
//
//   y[m, n] = f(sum over k of a[m, k] * w[k, n] + bias[n] [+ residual[m, n]])      a as in plan_positions.cuh, in pieces of 8
//
//   for each tile of y, by 128 threads:
//     plan_tiles.cuh's loop over K: pieces of a, and w as it lies, to shared memory
//     sums -> f -> y, a lane a channel
//
//              TILE_M x TILE_N x TILE_K   warps along M, N, K    for
//   64x64      64       64       32       2, 2, 1                many positions
//   32x32      32       32       64       1, 1, 4                few blocks: warps share K, their sums meet in the end
//   16x32      16       32      128       1, 1, 4                a vector or a few rows
//
// 1. The host has put w in the order of the fragments of mma: for 16 channels, for 16 of K, for each lane 16 bytes
//    (PTX ISA, "Matrix Fragments for mma.m16n8k16"). One load is the operand of two mma, and a tile is copied as it lies.
// 2. What the copy does not find it fills with zeros: rows beyond M, K's tail, pads. A zero meets a finite weight always:
//    weights that are not finite are `plan_conv`'s and `plan_matmul`'s.
// 3. `_by_element` is the same for x whose pixels do not begin at multiples of 16 bytes, or which holds bytes: the table
//    has an entry for each element of K, and threads bring elements instead of pieces.
//
// Operands are f16, sums those of the tensor cores: f32, truncated, in an order that NVIDIA does not state.
// Not yet run on real hardware. Deliberately absent: transposed convolutions, K split over blocks.
//
// instructions: HMMA.16816.F32 LDSM LDGSTS

#include "plan_positions.cuh"
#include "plan_tiles.cuh"

namespace {

constexpr unsigned K_BLOCK_BYTES = 32 * PIECE;  // of one strip

// One element of x as f16, exactly: bytes are whole numbers below 2^11.
__device__ __forceinline__ unsigned short half_at(const unsigned char* x, unsigned storage, long long index) {
  if (storage == PLAN_F16) return reinterpret_cast<const unsigned short*>(x)[index];
  return plan_half_of_float(plan_load(x, storage, index));
}

template <class T, bool BY_ELEMENT>
__device__ __forceinline__ void compute(const PlanBlocks& blocks, const PlanTiles& tiles, unsigned char* memory) {
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
    rows[i] = row_of(tiles, m, group * tiles.x.strides[TILES_GROUP]);
  }
  const unsigned char* w = plan_read(blocks, tiles.weights) + group * tiles.weights_stride;
  unsigned n_strips = (tiles.n + STRIP - 1) / STRIP;

  auto bring = [&](unsigned stage, unsigned char* to) {
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
        *reinterpret_cast<uint4*>(to + place<T::PIECES>(my_row + i * T::ROWS_APART, my_piece)) = words;
      }
    } else {
      PlanPiece piece = piece_at(pieces, at, tiles.n_pieces);
#pragma unroll
      for (unsigned i = 0; i < T::ROWS; ++i) {
        unsigned bytes = is_inside(tiles, rows[i], piece) ? piece.bytes : 0;
        const unsigned char* from = bytes == 0 ? x : x + 2 * (rows[i].first + piece.offset);
        copy_16_async_or_zeros(to + place<T::PIECES>(my_row + i * T::ROWS_APART, my_piece), from, bytes);
      }
    }
    unsigned first_block = stage * T::K_BLOCKS;
#pragma unroll
    for (unsigned i = 0; i < T::N * T::K / (8 * THREADS); ++i) {
      unsigned piece_idx = threadIdx.x + i * THREADS;
      unsigned strip = piece_idx / (32 * T::K_BLOCKS), inside = piece_idx % (32 * T::K_BLOCKS);
      unsigned w_strip = first_n / STRIP + strip, block = first_block + inside / 32;
      bool is_there = w_strip < n_strips && block < tiles.k_blocks;
      unsigned long long offset = static_cast<unsigned long long>(w_strip) * tiles.k_blocks * K_BLOCK_BYTES +
                                  first_block * K_BLOCK_BYTES + inside * PIECE;
      copy_16_async_or_zeros(to + T::A_BYTES + piece_idx * PIECE, is_there ? w + offset : w, is_there ? PIECE : 0);
    }
  };

  auto load_b = [&](unsigned words[4], const unsigned char* b, unsigned strip, unsigned block) {
    const unsigned char* from = b + (strip * T::K_BLOCKS + block) * K_BLOCK_BYTES + threadIdx.x % 32 * PIECE;
    uint4 both = *reinterpret_cast<const uint4*>(from);
    words[0] = both.x;
    words[1] = both.y;
    words[2] = both.z;
    words[3] = both.w;
  };
  multiply<T>(memory, (tiles.k_blocks + T::K_BLOCKS - 1) / T::K_BLOCKS, bring, load_b);

  unsigned char* y = plan_write(blocks, tiles.y.place);
#pragma unroll 1
  for (unsigned idx = threadIdx.x; idx < T::M * T::N; idx += THREADS) {
    unsigned row = idx / T::N, column = idx % T::N;
    unsigned m = first_m + row, n = first_n + column;
    if (m >= tiles.m || n >= tiles.n) continue;
    float sum = sum_at<T>(memory, row, column);
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
  compute<Tile<__VA_ARGS__>, by_element>(blocks, tiles, memory)

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
