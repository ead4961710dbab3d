// A product on tensor cores: one warp computes a 16x8 tile of C = A * B.
//
//   A [M][K] bf16, row by row     B [N][K] bf16, so that B's columns lie in rows     C [M][N] f32
//
//   for k in steps of 16:
//     A's 16x16 tile and B's 8x16 tile are copied to shared memory in the background
//     ldmatrix brings A's tile into fragments, plain loads bring B's
//     mma adds their product to the tile of C
//
// instructions: HMMA.16816.F32.BF16 LDSM LDGSTS
//
// M, N and K are multiples of 16, 8 and 16. It exists to exercise the instructions, not to be
// fast: one warp per block and no copy runs ahead.

#include "spark_warp.cuh"

extern "C" __global__ void __launch_bounds__(32)
matmul_bf16_f32(float* c, const unsigned short* a, const unsigned short* b, unsigned n, unsigned k) {
  __shared__ __align__(16) unsigned short tile_a[16][16];
  __shared__ __align__(16) unsigned short tile_b[8][16];
  unsigned lane = threadIdx.x;
  unsigned group = lane / 4, part = lane % 4;
  size_t first_row = 16 * static_cast<size_t>(blockIdx.y);
  size_t first_column = 8 * static_cast<size_t>(blockIdx.x);
  float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};

  for (unsigned step = 0; step < k; step += 16) {
    // Eight values in each copy: A's tile has 32 of them, B's tile 16.
    copy_16_async(&tile_a[lane / 2][8 * (lane % 2)], &a[(first_row + lane / 2) * k + step + 8 * (lane % 2)]);
    if (lane < 16) copy_16_async(&tile_b[lane / 2][8 * (lane % 2)], &b[(first_column + lane / 2) * k + step + 8 * (lane % 2)]);
    commit_copies();
    wait_copies();
    __syncwarp();

    unsigned fragment_a[4], fragment_b[2];
    // Lanes 0-7 name the rows of the first 8x8 tile, 8-15 of the one below, then to the right.
    load_matrix_x4(fragment_a, &tile_a[lane % 16][8 * (lane / 16)]);
    fragment_b[0] = *reinterpret_cast<const unsigned*>(&tile_b[group][2 * part]);
    fragment_b[1] = *reinterpret_cast<const unsigned*>(&tile_b[group][2 * part + 8]);
    mma_m16n8k16_bf16(sum, fragment_a, fragment_b, sum);
    __syncwarp();
  }
  float* upper = &c[(first_row + group) * n + first_column + 2 * part];
  float* lower = upper + 8 * static_cast<size_t>(n);
  upper[0] = sum[0];
  upper[1] = sum[1];
  lower[0] = sum[2];
  lower[1] = sum[3];
}
