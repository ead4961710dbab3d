// Every byte one more: what the measurement of memory kinds lets a GPU do to a shared buffer.
//
//   increment_u32   words[4 i .. 4 i + 4] += 0x01010101    one thread per four words
//
// n counts groups of four words. A device runs increment.ptx, which says the same and needs no
// compiler; this text is for readers, for `cargo xtask kernels`, and for the stand-in driver where
// it does not interpret PTX.

extern "C" __global__ void __launch_bounds__(256) increment_u32(uint4* words, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint4 four = words[i];
  four.x += 0x01010101u;
  four.y += 0x01010101u;
  four.z += 0x01010101u;
  four.w += 0x01010101u;
  words[i] = four;
}
