// GEMM on tensor cores: C = alpha * A * transposed B * beta, for 16-, 8- and 4-bit operands.
//
//   A [M][K], B [N][K]    packed along K, a row every `a_stride`, `b_stride` bytes (multiples of 16)
//   C [M][N] f32          a row every `c_stride` values
//   scales of NVFP4       E4M3, one for 16 values: [M][K/16] and [N][K/16], row by row
//
//   for each 64x64 tile of C, by 128 threads:
//     for each 64 bytes of K:
//       copy the next 64 rows x 64 bytes of A and of B to shared memory, in the background
//       for each 32 bytes of K:                             (K of one mma: 16, 32 or 64 values)
//         ldmatrix brings fragments of 32x32 values a warp
//         2 x 4 mma add their products to the sums
//     store alpha * sums * beta
//
// 1. A row of a tile has 64 bytes whatever the format, so one loop serves all of them: fragments of
//    8- and 4-bit values are those of 16-bit values, byte for byte (PTX ISA, "Matrix fragments").
// 2. Two stages: while one is multiplied the next is under way.
// 3. The 16-byte pieces of a row are exchanged by `piece ^ (row / 2 % 4)`, so that the eight rows
//    an ldmatrix reads lie in different banks.
// 4. Rows and bytes beyond the end are filled with zeros by the copy itself, which reads nothing there.
// 5. Where the tensor cores do not take a format, its values are converted in registers to f16,
//    exactly: E2M1 times an E4M3 scale has six significant bits. A fragment of 8 or 4 bits then gives
//    two or four of 16 bits whose k are permuted, alike in A and in B.
//
// SPARK_GEMM_FORMAT: 0 f16, 1 bf16, 2 E4M3, 3 NVFP4. Sums are those of the tensor cores: f32, in an
// order and with a rounding that NVIDIA does not state.
//
// Deliberately absent: splits of K, other tiles, other epilogues than `alpha` and `beta`.
//
// instructions: LDSM LDGSTS
// variant: -DSPARK_GEMM_FORMAT=0 | HMMA.16816.F32 on sm_80 sm_90a sm_120f sm_121a
// variant: -DSPARK_GEMM_FORMAT=1 | HMMA.16816.F32.BF16 on sm_80 sm_90a sm_120f sm_121a
// variant: -DSPARK_GEMM_FORMAT=2 | HMMA.16816.F32 on sm_80 sm_90a | QMMA.16832.F32.E4M3.E4M3 on sm_120f sm_121a
// variant: -DSPARK_GEMM_FORMAT=3 | HMMA.16816.F32 on sm_80 sm_90a | OMMA.SF.16864.F32.E2M1.E2M1.UE4M3.4X on sm_120f sm_121a

#include "spark_warp.cuh"

#define SPARK_FORMAT_F16 0
#define SPARK_FORMAT_BF16 1
#define SPARK_FORMAT_E4M3 2
#define SPARK_FORMAT_NVFP4 3

#ifndef SPARK_GEMM_FORMAT
#define SPARK_GEMM_FORMAT SPARK_FORMAT_F16
#endif

// What the tensor cores of the target take as it is.
#if (defined(__CUDA_ARCH_FAMILY_SPECIFIC__) || defined(__CUDA_ARCH_SPECIFIC__)) && __CUDA_ARCH__ >= 1200
#define SPARK_HAS_NVFP4 1
#else
#define SPARK_HAS_NVFP4 0
#endif
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 890
#define SPARK_HAS_E4M3 1
#else
#define SPARK_HAS_E4M3 0
#endif
#define SPARK_IS_NVFP4 (SPARK_GEMM_FORMAT == SPARK_FORMAT_NVFP4)
#define SPARK_DECODES_E4M3 (SPARK_GEMM_FORMAT == SPARK_FORMAT_E4M3 && !SPARK_HAS_E4M3)
#define SPARK_DECODES_NVFP4 (SPARK_IS_NVFP4 && !SPARK_HAS_NVFP4)

namespace {

constexpr unsigned TILE = 64;             // rows and columns of C that a block computes
constexpr unsigned TILE_BYTES = 64;       // of K in one stage
constexpr unsigned PIECE = 16;            // bytes of one copy
constexpr unsigned PIECES = TILE_BYTES / PIECE;
constexpr unsigned THREADS = 128;
constexpr unsigned STAGES = 2;
constexpr unsigned STEPS = 2;             // mma steps of a stage, 32 bytes of K each
constexpr unsigned ROW_TILES = 2;         // 16-row tiles of a warp
constexpr unsigned COLUMN_TILES = 4;      // 8-column tiles of a warp
#if SPARK_IS_NVFP4
constexpr unsigned SCALES = 8;            // scales of a row in one stage: 128 values of 4 bits
#endif
// How many mma one step takes: a word of a fragment holds this many pairs of f16.
#if SPARK_DECODES_NVFP4
constexpr unsigned PARTS = 4;
#elif SPARK_DECODES_E4M3
constexpr unsigned PARTS = 2;
#else
constexpr unsigned PARTS = 1;
#endif
// Decoded operands of two steps at once would not fit into registers. On compute capability 9.0 the
// assembler makes f16 of E4M3 too: its tensor cores take E4M3 from wgmma alone.
#if SPARK_GEMM_FORMAT == SPARK_FORMAT_E4M3 && SPARK_HAS_E4M3 && __CUDA_ARCH__ < 1000 && __CUDA_ARCH__ >= 900
constexpr unsigned UNROLLED_STEPS = 1;
#else
constexpr unsigned UNROLLED_STEPS = PARTS == 1 ? STEPS : 1;
#endif

struct Stage {
  unsigned char a[TILE * TILE_BYTES];
  unsigned char b[TILE * TILE_BYTES];
#if SPARK_IS_NVFP4
  unsigned char a_scales[TILE * SCALES];
  unsigned char b_scales[TILE * SCALES];
#endif
};

// Where a piece of a row lies in a tile: trick 3.
__device__ __forceinline__ unsigned place(unsigned row, unsigned piece) {
  return row * TILE_BYTES + (piece ^ (row / 2 % PIECES)) * PIECE;
}

// Brings 64 rows x 64 bytes, zeros where there is nothing.
__device__ __forceinline__ void copy_tile(unsigned char* tile, const unsigned char* rows, unsigned first_row,
                                          unsigned n_rows, unsigned first_byte, unsigned row_bytes,
                                          unsigned long long stride) {
  for (unsigned i = threadIdx.x; i < TILE * PIECES; i += THREADS) {
    unsigned row = i / PIECES, piece = i % PIECES;
    unsigned byte = first_byte + piece * PIECE;
    unsigned n_bytes = 0;
    if (first_row + row < n_rows && byte < row_bytes) {
      n_bytes = row_bytes - byte < PIECE ? row_bytes - byte : PIECE;
    }
    const unsigned char* from = n_bytes == 0 ? rows : rows + (first_row + row) * stride + byte;
    copy_16_async_or_zeros(tile + place(row, piece), from, n_bytes);
  }
}

#if SPARK_IS_NVFP4
// Brings the scales of a stage: thread i those of row i of A, then of B. A scale that is not there
// is 0, and so is everything it would scale.
__device__ __forceinline__ void copy_scales(Stage& stage, const unsigned char* a_scales, const unsigned char* b_scales,
                                            unsigned first_a, unsigned n_a, unsigned first_b, unsigned n_b,
                                            unsigned first_scale, unsigned n_scales) {
  bool is_a = threadIdx.x < TILE;
  unsigned row = threadIdx.x % TILE;
  unsigned source_row = (is_a ? first_a : first_b) + row;
  bool is_there = source_row < (is_a ? n_a : n_b);
  const unsigned char* scales = is_a ? a_scales : b_scales;
  unsigned words[2] = {0u, 0u};
  for (unsigned idx = 0; idx < SCALES; ++idx) {
    unsigned scale = first_scale + idx;
    unsigned byte = is_there && scale < n_scales ? scales[static_cast<unsigned long long>(source_row) * n_scales + scale] : 0u;
    words[idx / 4] |= byte << (8 * (idx % 4));
  }
  unsigned char* to = (is_a ? stage.a_scales : stage.b_scales) + row * SCALES;
  *reinterpret_cast<uint2*>(to) = make_uint2(words[0], words[1]);
}
#endif

#if SPARK_DECODES_E4M3 || SPARK_DECODES_NVFP4
// Two neighbouring E4M3 values as f16x2, exactly; `pair` counts from the low bits.
__device__ __forceinline__ unsigned f16x2_from_e4m3(unsigned word, unsigned pair) {
  unsigned two = word >> (16 * pair);
  unsigned low = (two & 0x80u) << 8 | (two & 0x7Fu) << 7;
  unsigned high = (two & 0x8000u) << 16 | (two & 0x7F00u) << 15;
  // As f16 these are 2^8 too small; 0x7F is NaN and must stay it.
  unsigned values = multiply_f16x2(low | high, 0x5C005C00u);
  if ((two & 0x7Fu) == 0x7Fu) values |= 0x7FFFu;
  if ((two & 0x7F00u) == 0x7F00u) values |= 0x7FFF0000u;
  return values;
}
#endif

#if SPARK_DECODES_NVFP4
// Two neighbouring E2M1 values: as f16 their bits are 2^14 too small.
__device__ __forceinline__ unsigned f16x2_from_e2m1(unsigned word, unsigned pair) {
  unsigned two = word >> (8 * pair);
  unsigned low = (two & 0x8u) << 12 | (two & 0x7u) << 9;
  unsigned high = (two & 0x80u) << 24 | (two & 0x70u) << 21;
  return multiply_f16x2(low | high, 0x74007400u);
}

// One scale, whose sign does not count, in both halves.
__device__ __forceinline__ unsigned f16x2_from_scale(unsigned byte) {
  unsigned magnitude = byte & 0x7Fu;
  return f16x2_from_e4m3(magnitude | magnitude << 8, 0);
}
#endif

// What the tensor core is given of a word that covers the half `half` of a step's K. The lane has
// 8 values of 4 bits there, and 16 have one scale: byte 2 half + lane % 4 / 2 of `scales`.
__device__ __forceinline__ unsigned operand(unsigned word, unsigned scales, unsigned half, unsigned part) {
#if SPARK_DECODES_NVFP4
  unsigned scale = f16x2_from_scale(scales >> (8 * (2 * half + threadIdx.x % 4 / 2)));
  return multiply_f16x2(f16x2_from_e2m1(word, part), scale);
#elif SPARK_DECODES_E4M3
  return f16x2_from_e4m3(word, part);
#else
  return word;
#endif
}

// Adds the product of a 16x8 tile to its sum.
__device__ __forceinline__ void multiply_add(float sum[4], const unsigned a[4], const unsigned b[2],
                                             unsigned a_scales, unsigned b_scales) {
#if SPARK_IS_NVFP4 && SPARK_HAS_NVFP4
  mma_m16n8k64_nvfp4(sum, a, b, sum, a_scales, b_scales);
#elif SPARK_GEMM_FORMAT == SPARK_FORMAT_E4M3 && SPARK_HAS_E4M3
  mma_m16n8k32_e4m3(sum, a, b, sum);
#elif SPARK_GEMM_FORMAT == SPARK_FORMAT_BF16
  mma_m16n8k16_bf16(sum, a, b, sum);
#else
  mma_m16n8k16_f16(sum, a, b, sum);
#endif
}

}  // namespace

extern "C" __global__ void __launch_bounds__(THREADS, 4)
spark_gemm(float* c, const unsigned char* a, const unsigned char* b, const unsigned char* a_scales,
           const unsigned char* b_scales, unsigned m, unsigned n, unsigned row_bytes, unsigned long long a_stride,
           unsigned long long b_stride, unsigned long long c_stride, float alpha,
           float beta) {
  __shared__ __align__(16) Stage stages[STAGES];
  unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  unsigned group = lane / 4, part = lane % 4;
  unsigned first_row = TILE * blockIdx.y, first_column = TILE * blockIdx.x;
  unsigned warp_row = 32 * (warp / 2), warp_column = 32 * (warp % 2);
  unsigned n_stages = (row_bytes + TILE_BYTES - 1) / TILE_BYTES;
  float sums[ROW_TILES][COLUMN_TILES][4] = {};

  auto bring = [&](unsigned stage_idx) {
    Stage& stage = stages[stage_idx % STAGES];
    unsigned byte = stage_idx * TILE_BYTES;
    copy_tile(stage.a, a, first_row, m, byte, row_bytes, a_stride);
    copy_tile(stage.b, b, first_column, n, byte, row_bytes, b_stride);
#if SPARK_IS_NVFP4
    // 8 bytes of codes have one scale.
    copy_scales(stage, a_scales, b_scales, first_row, m, first_column, n, byte / 8, row_bytes / 8);
#endif
  };

  if (n_stages > 0) bring(0);
  commit_copies();
  for (unsigned stage_idx = 0; stage_idx < n_stages; ++stage_idx) {
    if (stage_idx + 1 < n_stages) bring(stage_idx + 1);
    // Also where nothing was copied: waiting for all groups but one then means this stage.
    commit_copies();
    wait_copies_but_one();
    __syncthreads();
    const Stage& stage = stages[stage_idx % STAGES];
#pragma unroll UNROLLED_STEPS
    for (unsigned step = 0; step < STEPS; ++step) {
      unsigned words_a[ROW_TILES][4], words_b[COLUMN_TILES / 2][4];
#pragma unroll
      for (unsigned tile = 0; tile < ROW_TILES; ++tile) {
        unsigned row = warp_row + 16 * tile + lane % 16;
        load_matrix_x4(words_a[tile], stage.a + place(row, 2 * step + lane / 16));
      }
      // One ldmatrix brings two 8-column tiles.
#pragma unroll
      for (unsigned pair = 0; pair < COLUMN_TILES / 2; ++pair) {
        unsigned row = warp_column + 16 * pair + lane / 16 * 8 + lane % 8;
        load_matrix_x4(words_b[pair], stage.b + place(row, 2 * step + lane / 8 % 2));
      }
      unsigned scales_a[ROW_TILES][2] = {}, scales_b[COLUMN_TILES] = {};
#if SPARK_IS_NVFP4
#pragma unroll
      for (unsigned tile = 0; tile < ROW_TILES; ++tile) {
#pragma unroll
        for (unsigned half = 0; half < 2; ++half) {
          unsigned row = warp_row + 16 * tile + 8 * half + group;
          scales_a[tile][half] = *reinterpret_cast<const unsigned*>(stage.a_scales + row * SCALES + 4 * step);
        }
      }
#pragma unroll
      for (unsigned tile = 0; tile < COLUMN_TILES; ++tile) {
        unsigned row = warp_column + 8 * tile + group;
        scales_b[tile] = *reinterpret_cast<const unsigned*>(stage.b_scales + row * SCALES + 4 * step);
      }
#endif
#pragma unroll
      for (unsigned decoded = 0; decoded < PARTS; ++decoded) {
        unsigned operands_b[COLUMN_TILES][2];
#pragma unroll
        for (unsigned tile = 0; tile < COLUMN_TILES; ++tile) {
#pragma unroll
          for (unsigned half = 0; half < 2; ++half) {
            operands_b[tile][half] = operand(words_b[tile / 2][tile % 2 * 2 + half], scales_b[tile], half, decoded);
          }
        }
#pragma unroll
        for (unsigned tile = 0; tile < ROW_TILES; ++tile) {
          unsigned operands_a[4];
#pragma unroll
          for (unsigned idx = 0; idx < 4; ++idx) {
            operands_a[idx] = operand(words_a[tile][idx], scales_a[tile][idx % 2], idx / 2, decoded);
          }
          // The tensor core asks the lanes 4g and 4g + 1 for the scales of rows g and g + 8.
          unsigned scales = lane % 2 == 0 ? scales_a[tile][0] : scales_a[tile][1];
#pragma unroll
          for (unsigned column = 0; column < COLUMN_TILES; ++column) {
            multiply_add(sums[tile][column], operands_a, operands_b[column], scales, scales_b[column]);
          }
        }
      }
    }
    // The next round overwrites what was just read.
    __syncthreads();
  }

#pragma unroll
  for (unsigned tile = 0; tile < ROW_TILES; ++tile) {
#pragma unroll
    for (unsigned column = 0; column < COLUMN_TILES; ++column) {
      for (unsigned idx = 0; idx < 4; ++idx) {
        unsigned row = first_row + warp_row + 16 * tile + group + idx / 2 * 8;
        unsigned at = first_column + warp_column + 8 * column + 2 * part + idx % 2;
        if (row < m && at < n) c[row * c_stride + at] = alpha * sums[tile][column][idx] * beta;
      }
    }
  }
}
