// Products of two computed matrices on tensor cores, a block a tile of one of a batch.
//
//   y[b, m, n] = f(scale * sum over k of a[b, m, k] * b[b, k, n] ...)
//
//   _nk   columns of b are rows in memory: k is side by side, as in a      ldmatrix brings the fragments
//   _kn   rows of b are rows in memory: n is side by side                  ldmatrix.trans turns them on the way
//
// Tiles, stages and sums are those of plan_tiles.cuh. What the copy does not find it fills with zeros: rows, columns and K's
// tail alike, in both operands, so what is no number meets zeros in results alone that nobody stores.
//
// Operands are f16 whose rows begin at multiples of 16 bytes. Not yet run on real hardware.
//
// instructions: HMMA.16816.F32 LDSM LDGSTS

#include "plan_tiles.cuh"

struct PlanMatMul {
  PlanView a, b, y;  // batch axes, then the last two: [m, k], [k, n], [m, n]
  PlanEpilogue epilogue;
  unsigned batch[PLAN_BATCH_AXES];
  unsigned count, m, n, k;
  float scale;
  unsigned unused;
};

namespace {

// Rows of so many pieces, from `first_row` and `first` of a row on, as they lie; zeros where there are none.
template <unsigned ROWS, unsigned PIECES>
__device__ __forceinline__ void bring_rows(unsigned char* to, const unsigned char* rows, long long stride,
                                           unsigned first_row, unsigned n_rows, unsigned first, unsigned n) {
#pragma unroll
  for (unsigned i = 0; i < ROWS * PIECES / THREADS; ++i) {
    unsigned idx = threadIdx.x + i * THREADS;
    unsigned row = idx / PIECES, piece = idx % PIECES;
    unsigned at = first + 8 * piece, left = at < n ? n - at : 0;
    unsigned n_bytes = first_row + row < n_rows ? (left < 8 ? 2 * left : PIECE) : 0;
    const unsigned char* from = n_bytes == 0 ? rows : rows + 2 * ((first_row + row) * stride + at);
    copy_16_async_or_zeros(to + place<PIECES>(row, piece), from, n_bytes);
  }
}

template <class T, bool K_IS_INNER>
__device__ __forceinline__ void compute(const PlanBlocks& blocks, const PlanMatMul& product, unsigned char* memory) {
  constexpr unsigned N_PIECES = T::N / 8;
  unsigned lane = threadIdx.x % 32;
  unsigned tiles_n = (product.n + T::N - 1) / T::N, tiles_m = (product.m + T::M - 1) / T::M;
  unsigned first_n = blockIdx.x % tiles_n * T::N, rest = blockIdx.x / tiles_n;
  unsigned first_m = rest % tiles_m * T::M, batch = rest / tiles_m;
  auto start = [&](const PlanView& view) {
    return plan_read(blocks, view.place) + 2 * plan_batch_index(product.batch, view.strides, batch);
  };
  const unsigned char *a = start(product.a), *b = start(product.b);
  long long a_stride = product.a.strides[PLAN_BATCH_AXES];
  long long b_stride = product.b.strides[PLAN_BATCH_AXES + (K_IS_INNER ? 1 : 0)];

  auto bring = [&](unsigned stage, unsigned char* to) {
    unsigned k = stage * T::K;
    bring_rows<T::M, T::PIECES>(to, a, a_stride, first_m, product.m, k, product.k);
    if constexpr (K_IS_INNER) {
      bring_rows<T::N, T::PIECES>(to + T::A_BYTES, b, b_stride, first_n, product.n, k, product.k);
    } else {
      bring_rows<T::K, N_PIECES>(to + T::A_BYTES, b, b_stride, k, product.k, first_n, product.n);
    }
  };
  // Matrix 2 tile + half of an ldmatrix: 8 columns `tile` of the strip, 8 of K `half` of the block.
  auto load_b = [&](unsigned words[4], const unsigned char* from, unsigned strip, unsigned block) {
    unsigned half = lane / 8 % 2, tile = lane / 16;
    if constexpr (K_IS_INNER) {
      unsigned row = STRIP * strip + 8 * tile + lane % 8;
      load_matrix_x4(words, from + place<T::PIECES>(row, 2 * block + half));
    } else {
      unsigned row = K_BLOCK * block + 8 * half + lane % 8;
      load_matrix_x4_transposed(words, from + place<N_PIECES>(row, 2 * strip + tile));
    }
  };
  multiply<T>(memory, (product.k + T::K - 1) / T::K, bring, load_b);

#pragma unroll 1
  for (unsigned idx = threadIdx.x; idx < T::M * T::N; idx += THREADS) {
    unsigned m = first_m + idx / T::N, n = first_n + idx % T::N;
    if (m >= product.m || n >= product.n) continue;
    float sum = product.scale * sum_at<T>(memory, idx / T::N, idx % T::N);
    auto index = [&](const long long* strides) {
      return plan_batch_index(product.batch, strides, batch) + m * strides[PLAN_BATCH_AXES] +
             n * strides[PLAN_BATCH_AXES + 1];
    };
    // Before the epilogue, whose functions call others: what lives through a call costs registers.
    long long to = index(product.y.strides), residual = index(product.epilogue.residual.strides);
    float value = plan_epilogue(blocks, product.epilogue, sum, n, residual);
    plan_store(plan_write(blocks, product.y.place), product.y.place.storage, to, value);
  }
}

}  // namespace

// One kernel of these extents; the signature stands before it, where tools that read sources find it.
#define MATMUL_BODY(k_is_inner, ...)                                       \
  __shared__ __align__(16) unsigned char memory[Tile<__VA_ARGS__>::BYTES]; \
  PlanBlocks blocks{arena, outputs, inputs, constants};                    \
  compute<Tile<__VA_ARGS__>, k_is_inner>(blocks, product, memory)

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_matmul_nk_64x64(PLAN_BLOCKS, PlanMatMul product) {
  MATMUL_BODY(true, 64, 64, 32, 2, 2, 1);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_matmul_kn_64x64(PLAN_BLOCKS, PlanMatMul product) {
  MATMUL_BODY(false, 64, 64, 32, 2, 2, 1);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_matmul_nk_32x32(PLAN_BLOCKS, PlanMatMul product) {
  MATMUL_BODY(true, 32, 32, 64, 1, 1, 4);
}

extern "C" __global__ void __launch_bounds__(128, 4) plan_tiles_matmul_kn_32x32(PLAN_BLOCKS, PlanMatMul product) {
  MATMUL_BODY(false, 32, 32, 64, 1, 1, 4);
}
