// Convolutions in which a channel of y sees its own channel of x, a thread four neighbouring columns of one channel.
//
//   for each row of the window that lies inside:
//     the 3 * STRIDE + WIDTH values of x that the four columns see there -> registers, zeros where there are none
//     for each of the WIDTH taps: its weight, and a product for each column
//   f(sums) -> y
//
// 1. A value of x serves up to four columns, a weight all four: 2.4 loads a product become 0.6 (WIDTH 7).
// 2. Weights are [tap][channel]: neighbouring threads, which have neighbouring channels, read neighbouring weights.
// 3. A sum goes through shared memory to its epilogue, which then stands in the code once.
//
// WIDTH is 3, 5 or 7 and STRIDE 1 or 2; height, stride and dilation along rows are any. f16 or f32 in x and weights alike.
// Sums are f32, in order of the taps; a zero stands for what is outside, so weights must be finite.
// Not yet run on real hardware. Deliberately absent: dilation along columns, neighbouring 1x1 convolutions.

#include "plan_math.cuh"

struct PlanDepthwise {
  PlanView x, y;  // n, c, h, w
  PlanEpilogue epilogue;
  PlanPlace weights;   // [tap][channel]
  unsigned count;      // threads that have columns
  unsigned channels;
  unsigned height, width, column_groups;  // of y
  unsigned in_height, in_width;
  unsigned kernel_height, stride, dilation, pad[2];
};

namespace {

constexpr unsigned COLUMNS = 4;

__device__ __forceinline__ float value_at(const float* x, long long index) { return x[index]; }
__device__ __forceinline__ float value_at(const unsigned short* x, long long index) {
  return plan_float_of_half(x[index]);
}

template <class T, unsigned WIDTH, unsigned STRIDE>
__device__ __forceinline__ void add_products(float sums[COLUMNS], const PlanBlocks& blocks, const PlanDepthwise& conv,
                                             unsigned sample, unsigned channel, int row, int column) {
  constexpr unsigned SEEN = (COLUMNS - 1) * STRIDE + WIDTH;
  const T* x = reinterpret_cast<const T*>(plan_read(blocks, conv.x.place));
  const T* weights = reinterpret_cast<const T*>(plan_read(blocks, conv.weights)) + channel;
  const long long* strides = conv.x.strides;
  long long first = sample * strides[0] + channel * strides[1] + column * strides[3];
  for (unsigned tap_row = 0; tap_row < conv.kernel_height; ++tap_row) {
    int y = row + static_cast<int>(tap_row * conv.dilation);
    if (static_cast<unsigned>(y) >= conv.in_height) continue;
    const T* from = x + (first + y * strides[2]);
    const T* tap = weights + static_cast<unsigned long long>(tap_row * WIDTH) * conv.channels;
    float seen[SEEN];
#pragma unroll
    for (unsigned i = 0; i < SEEN; ++i) {
      bool is_inside = static_cast<unsigned>(column + static_cast<int>(i)) < conv.in_width;
      seen[i] = is_inside ? value_at(from, i * strides[3]) : 0.0f;
    }
#pragma unroll
    for (unsigned tap_column = 0; tap_column < WIDTH; ++tap_column) {
      float weight = value_at(tap, static_cast<long long>(tap_column) * conv.channels);
#pragma unroll
      for (unsigned i = 0; i < COLUMNS; ++i) sums[i] += seen[i * STRIDE + tap_column] * weight;
    }
  }
}

template <unsigned WIDTH, unsigned STRIDE>
__device__ __forceinline__ void convolve(const PlanBlocks& blocks, const PlanDepthwise& conv,
                                         float (*all_sums)[PLAN_THREADS]) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  if (thread >= conv.count) return;
  unsigned channel = thread % conv.channels, rest = thread / conv.channels;
  unsigned first_column = rest % conv.column_groups * COLUMNS;
  rest /= conv.column_groups;
  unsigned y_row = rest % conv.height, sample = rest / conv.height;
  int row = static_cast<int>(y_row * conv.stride) - static_cast<int>(conv.pad[0]);
  int column = static_cast<int>(first_column * STRIDE) - static_cast<int>(conv.pad[1]);
  float sums[COLUMNS] = {};
  if (conv.x.place.storage == PLAN_F16) {
    add_products<unsigned short, WIDTH, STRIDE>(sums, blocks, conv, sample, channel, row, column);
  } else {
    add_products<float, WIDTH, STRIDE>(sums, blocks, conv, sample, channel, row, column);
  }
#pragma unroll
  for (unsigned i = 0; i < COLUMNS; ++i) all_sums[i][threadIdx.x] = sums[i];

  auto index = [&](const long long* strides) {
    return sample * strides[0] + channel * strides[1] + y_row * strides[2] + first_column * strides[3];
  };
  long long to = index(conv.y.strides), residual = index(conv.epilogue.residual.strides);
  unsigned n_columns = conv.width - first_column < COLUMNS ? conv.width - first_column : COLUMNS;
#pragma unroll 1
  for (unsigned i = 0; i < n_columns; ++i) {
    float value = plan_epilogue(blocks, conv.epilogue, all_sums[i][threadIdx.x], channel, residual);
    plan_store(plan_write(blocks, conv.y.place), conv.y.place.storage, to, value);
    to += conv.y.strides[3];
    residual += conv.epilogue.residual.strides[3];
  }
}

}  // namespace

// One kernel of this width and stride; the signature stands before it, where tools that read sources find it.
#define DEPTHWISE_BODY(...)                               \
  __shared__ float sums[COLUMNS][PLAN_THREADS];           \
  PlanBlocks blocks{arena, outputs, inputs, constants};   \
  convolve<__VA_ARGS__>(blocks, conv, sums)

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_3(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(3, 1);
}

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_5(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(5, 1);
}

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_7(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(7, 1);
}

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_3_by_2(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(3, 2);
}

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_5_by_2(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(5, 2);
}

extern "C" __global__ void __launch_bounds__(128, 8) plan_depthwise_7_by_2(PLAN_BLOCKS, PlanDepthwise conv) {
  DEPTHWISE_BODY(7, 2);
}
