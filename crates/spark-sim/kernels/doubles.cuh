// Minima, sine, cosine and arc tangent in f64 with the bits of the CPU path: src/real/double.rs, same operations, same
// order. Cards for graphics have few units for f64; what uses it here is what other road users do.
#pragma once

#include "numbers.cuh"

namespace sim {

// `b` where a comparison with NaN decides.
__device__ __forceinline__ double minimum(double a, double b) { return a < b ? a : b; }
__device__ __forceinline__ double maximum(double a, double b) { return b < a ? a : b; }
__device__ __forceinline__ double absolute(double x) { return fabs(x); }

struct SinCosDouble { double sin, cos; };

__device__ inline SinCosDouble sin_cos(double x) {
  double quarter_turns = x * 0.63661977236758134308 + 6755399441055744.0 - 6755399441055744.0;
  double r = x - quarter_turns * (2.0 * 7.853981256484985e-1);
  r = r - quarter_turns * (2.0 * 3.774894707930798e-8);
  r = r - quarter_turns * (2.0 * 2.6951514290790595e-15);
  double z = r * r;
  double p = 1.5896230157654657e-10 * z - 2.5050747762857807e-8;
  p = p * z + 2.7557313621385722e-6;
  p = p * z - 1.984126982958954e-4;
  p = p * z + 8.333333333322118e-3;
  p = p * z - 1.666666666666663e-1;
  double sin = p * z * r + r;
  p = -1.1358536521387682e-11 * z + 2.087570084197473e-9;
  p = p * z - 2.755731417929674e-7;
  p = p * z + 2.4801587288851705e-5;
  p = p * z - 1.3888888888873056e-3;
  p = p * z + 4.1666666666666595e-2;
  double cos = p * z * z - 0.5 * z + 1.0;
  unsigned q = static_cast<unsigned>(static_cast<int>(quarter_turns));
  double turned_sin = q & 1 ? cos : sin;
  double turned_cos = q & 1 ? sin : cos;
  return {q & 2 ? -turned_sin : turned_sin, (q + 1) & 2 ? -turned_cos : turned_cos};
}

__device__ inline double arc_tangent(double x) {
  double size = absolute(x);
  bool large = size > 2.414213562373095;
  bool medium = size > 0.66;
  double numerator = large ? -1.0 : (medium ? size - 1.0 : size);
  double denominator = large ? size : (medium ? size + 1.0 : 1.0);
  double r = numerator / denominator;
  double z = r * r;
  double p = -8.750608600031904e-1 * z - 1.6157537187333652e1;
  p = p * z - 7.500855792314705e1;
  p = p * z - 1.2288666844901361e2;
  p = p * z - 6.485021904942025e1;
  double q = z + 2.4858464901423063e1;
  q = q * z + 1.6502700983169886e2;
  q = q * z + 4.3288106049129027e2;
  q = q * z + 4.853903996359137e2;
  q = q * z + 1.945506571482614e2;
  double rest = large ? 6.123233995736766e-17 : (medium ? 3.061616997868383e-17 : 0.0);
  double offset = large ? 1.57079632679489661923 : (medium ? 0.78539816339744830962 : 0.0);
  double positive = offset + (r * (z * p / q) + r + rest);
  return x < 0.0 ? -positive : positive;
}

}  // namespace sim
