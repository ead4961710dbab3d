// Steps of a lowered plan that make one number of many, or see whole rows: softmax, normalisations, reductions, pooling.
//
//   plan_softmax      y = e^(x - max) / sum e^(x - max), or its logarithm      a block a row
//   plan_norm         y = (x - mean) / deviation * scale + bias                a block a row
//   plan_group_norm   the same over channels and positions of a group         a block a group of a sample
//   plan_reduce       y = sum, mean, max ... over some axes of x              a warp a result
//   plan_pool         y = maximum or average of a window                      a thread a result
//
// Sums are f32, each thread's own first, then over threads in a fixed order.

#include "plan_views.cuh"

struct PlanSoftmax {
  PlanView x, y;  // [rows, width]
  unsigned rows, width;
  unsigned log, masked;
};

extern "C" __global__ void __launch_bounds__(128) plan_softmax(PLAN_BLOCKS, PlanSoftmax step) {
  __shared__ float parts[PLAN_THREADS / 32];
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned row = blockIdx.x;
  const unsigned char* x = plan_read(blocks, step.x.place);
  unsigned char* y = plan_write(blocks, step.y.place);
  unsigned from = step.x.place.storage, to = step.y.place.storage;
  auto x_index = [&](unsigned i) { return row * step.x.strides[0] + i * step.x.strides[1]; };
  float most = -SPARK_INFINITY, n_nan = 0.0f;
  for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) {
    float value = plan_load(x, from, x_index(i));
    most = value > most ? value : most;
    n_nan += value != value ? 1.0f : 0.0f;
  }
  most = plan_block_max(most, parts);
  // A row of masks alone becomes zeros; one in which a NaN stands stays NaN.
  bool hides_all = step.masked && most == -SPARK_INFINITY;
  if (hides_all) hides_all = plan_block_sum(n_nan, parts) == 0.0f;
  float sum = 0.0f;
  for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) sum += expf(plan_load(x, from, x_index(i)) - most);
  sum = plan_block_sum(sum, parts);
  // y may be x: a thread reads the elements that it writes, and no others from here on.
  for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) {
    float distance = plan_load(x, from, x_index(i)) - most;
    float value = step.log ? distance - logf(sum) : expf(distance) / sum;
    plan_store(y, to, row * step.y.strides[0] + i * step.y.strides[1], hides_all ? 0.0f : value);
  }
}

struct PlanNorm {
  PlanView x, y;  // [rows, width]
  PlanView scale, bias;  // [width]
  unsigned rows, width;
  unsigned of_squares;  // the mean is taken as 0
  unsigned has_scale, has_bias;
  float epsilon;
};

extern "C" __global__ void __launch_bounds__(128) plan_norm(PLAN_BLOCKS, PlanNorm step) {
  __shared__ float parts[PLAN_THREADS / 32];
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned row = blockIdx.x;
  auto load = [&](unsigned i) {
    return plan_load(plan_read(blocks, step.x.place), step.x.place.storage,
                     row * step.x.strides[0] + i * step.x.strides[1]);
  };
  float mean = 0.0f;
  if (!step.of_squares) {
    for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) mean += load(i);
    mean = plan_block_sum(mean, parts) / static_cast<float>(step.width);
  }
  float square = 0.0f;
  for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) {
    float difference = load(i) - mean;
    square += difference * difference;
  }
  square = plan_block_sum(square, parts) / static_cast<float>(step.width);
  float inverse = 1.0f / sqrtf(square + step.epsilon);
  for (unsigned i = threadIdx.x; i < step.width; i += PLAN_THREADS) {
    float value = (load(i) - mean) * inverse;
    if (step.has_scale) {
      value *= plan_load(plan_read(blocks, step.scale.place), step.scale.place.storage, i * step.scale.strides[0]);
    }
    if (step.has_bias) {
      value += plan_load(plan_read(blocks, step.bias.place), step.bias.place.storage, i * step.bias.strides[0]);
    }
    plan_store(plan_write(blocks, step.y.place), step.y.place.storage,
               row * step.y.strides[0] + i * step.y.strides[1], value);
  }
}

struct PlanGroupNorm {
  PlanView x, y;  // [samples, channels, positions]
  PlanView scale, bias;  // [channels]
  unsigned samples, groups, per_group, positions;
  float epsilon;
  unsigned unused;
};

extern "C" __global__ void __launch_bounds__(128) plan_group_norm(PLAN_BLOCKS, PlanGroupNorm step) {
  __shared__ float parts[PLAN_THREADS / 32];
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned group = blockIdx.x % step.groups, sample = blockIdx.x / step.groups;
  // The host has found their product to be below 2^32.
  unsigned n = step.per_group * step.positions;
  auto index = [&](const long long* strides, unsigned i) {
    unsigned channel = group * step.per_group + i / step.positions;
    return sample * strides[0] + channel * strides[1] + (i % step.positions) * strides[2];
  };
  auto load = [&](unsigned i) {
    return plan_load(plan_read(blocks, step.x.place), step.x.place.storage, index(step.x.strides, i));
  };
  float mean = 0.0f;
  for (unsigned i = threadIdx.x; i < n; i += PLAN_THREADS) mean += load(i);
  mean = plan_block_sum(mean, parts) / static_cast<float>(n);
  float square = 0.0f;
  for (unsigned i = threadIdx.x; i < n; i += PLAN_THREADS) {
    float difference = load(i) - mean;
    square += difference * difference;
  }
  square = plan_block_sum(square, parts) / static_cast<float>(n);
  float inverse = 1.0f / sqrtf(square + step.epsilon);
  for (unsigned i = threadIdx.x; i < n; i += PLAN_THREADS) {
    unsigned channel = group * step.per_group + i / step.positions;
    float scale = plan_load(plan_read(blocks, step.scale.place), step.scale.place.storage,
                            channel * step.scale.strides[0]);
    float bias = plan_load(plan_read(blocks, step.bias.place), step.bias.place.storage, channel * step.bias.strides[0]);
    plan_store(plan_write(blocks, step.y.place), step.y.place.storage, index(step.y.strides, i),
               (load(i) - mean) * inverse * scale + bias);
  }
}

#define PLAN_SUM 0u
#define PLAN_MEAN 1u
#define PLAN_MAX 2u
#define PLAN_MIN 3u
#define PLAN_PROD 4u
#define PLAN_L1 5u
#define PLAN_L2 6u
#define PLAN_SUM_SQUARE 7u
#define PLAN_LOG_SUM 8u
#define PLAN_LOG_SUM_EXP 9u

struct PlanReduce {
  PlanView x, y;    // strides of the axes that stay
  PlanShape kept;   // of y
  PlanShape over;   // of what is reduced
  long long over_strides[PLAN_MOST_AXES];
  unsigned kind;
  unsigned unused;
};

__device__ __forceinline__ float reduce_two(unsigned kind, float a, float b) {
  switch (kind) {
    case PLAN_MAX: return b > a || b != b ? b : a;
    case PLAN_MIN: return b < a || b != b ? b : a;
    case PLAN_PROD: return a * b;
    default: return a + b;
  }
}

__device__ __forceinline__ float reduce_start(unsigned kind) {
  switch (kind) {
    case PLAN_MAX: return -SPARK_INFINITY;
    case PLAN_MIN: return SPARK_INFINITY;
    case PLAN_PROD: return 1.0f;
    default: return 0.0f;
  }
}

// Over the lanes of a warp, the result in every one of them.
__device__ __forceinline__ float reduce_warp(unsigned kind, float value) {
  for (int lanes = 16; lanes > 0; lanes /= 2) {
    value = reduce_two(kind, value, __shfl_xor_sync(0xFFFFFFFFu, value, lanes));
  }
  return value;
}

extern "C" __global__ void __launch_bounds__(128) plan_reduce(PLAN_BLOCKS, PlanReduce step) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned result = blockIdx.x * (PLAN_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
  // All lanes of a warp have the same result.
  if (result >= step.kept.n) return;
  const unsigned char* x = plan_read(blocks, step.x.place);
  long long first = plan_index(step.kept, step.x.strides, result);
  auto load = [&](unsigned i) {
    return plan_load(x, step.x.place.storage, first + plan_index(step.over, step.over_strides, i));
  };
  unsigned kind = step.kind;
  float shift = 0.0f;
  if (kind == PLAN_LOG_SUM_EXP) {
    float most = -SPARK_INFINITY;
    for (unsigned i = lane; i < step.over.n; i += 32) most = reduce_two(PLAN_MAX, most, load(i));
    most = reduce_warp(PLAN_MAX, most);
    shift = fabsf(most) == SPARK_INFINITY ? 0.0f : most;
  }
  float value = reduce_start(kind);
  for (unsigned i = lane; i < step.over.n; i += 32) {
    float element = load(i);
    if (kind == PLAN_L1) element = fabsf(element);
    if (kind == PLAN_L2 || kind == PLAN_SUM_SQUARE) element *= element;
    if (kind == PLAN_LOG_SUM_EXP) element = expf(element - shift);
    value = reduce_two(kind, value, element);
  }
  value = reduce_warp(kind, value);
  if (kind == PLAN_MEAN) value /= static_cast<float>(step.over.n);
  if (kind == PLAN_L2) value = sqrtf(value);
  if (kind == PLAN_LOG_SUM) value = logf(value);
  if (kind == PLAN_LOG_SUM_EXP) value = logf(value) + shift;
  if (lane == 0) {
    plan_store(plan_write(blocks, step.y.place), step.y.place.storage, plan_index(step.kept, step.y.strides, result),
               value);
  }
}

struct PlanPool {
  PlanView x, y;  // n, c, h, w
  unsigned count;  // elements of y
  unsigned channels, height, width;
  unsigned in_height, in_width;
  unsigned kernel[2], stride[2], dilation[2], pad[2], pad_end[2];
  unsigned averages, counts_pads;
  unsigned unused[2];
};

// The taps of a window that lie in the picture, and how many count where borders do.
struct PoolSpan {
  int origin;
  unsigned first, end, counted;
};

__device__ __forceinline__ unsigned taps_before(const PlanPool& pool, unsigned axis, long long distance) {
  if (distance <= 0) return 0;
  long long taps = (distance + pool.dilation[axis] - 1) / pool.dilation[axis];
  return taps < pool.kernel[axis] ? static_cast<unsigned>(taps) : pool.kernel[axis];
}

__device__ __forceinline__ PoolSpan pool_span(const PlanPool& pool, unsigned axis, unsigned position, unsigned extent) {
  PoolSpan span;
  span.origin = static_cast<int>(position * pool.stride[axis]) - static_cast<int>(pool.pad[axis]);
  span.first = taps_before(pool, axis, -static_cast<long long>(span.origin));
  span.end = taps_before(pool, axis, static_cast<long long>(extent) - span.origin);
  span.counted = taps_before(pool, axis, static_cast<long long>(extent) + pool.pad_end[axis] - span.origin);
  return span;
}

extern "C" __global__ void __launch_bounds__(128) plan_pool(PLAN_BLOCKS, PlanPool pool) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned element = blockIdx.x * blockDim.x + threadIdx.x;
  if (element >= pool.count) return;
  unsigned channel = element % pool.channels, rest = element / pool.channels;
  unsigned column = rest % pool.width;
  rest /= pool.width;
  unsigned row = rest % pool.height, sample = rest / pool.height;
  PoolSpan down = pool_span(pool, 0, row, pool.in_height), along = pool_span(pool, 1, column, pool.in_width);
  const long long *xs = pool.x.strides, *ys = pool.y.strides;
  const unsigned char* x = plan_read(blocks, pool.x.place);
  unsigned kind = pool.averages ? PLAN_SUM : PLAN_MAX;
  float value = reduce_start(kind);
  for (unsigned ty = down.first; ty < down.end; ++ty) {
    long long y_at = down.origin + static_cast<long long>(ty) * pool.dilation[0];
    for (unsigned tx = along.first; tx < along.end; ++tx) {
      long long x_at = along.origin + static_cast<long long>(tx) * pool.dilation[1];
      long long index = sample * xs[0] + channel * xs[1] + y_at * xs[2] + x_at * xs[3];
      value = reduce_two(kind, value, plan_load(x, pool.x.place.storage, index));
    }
  }
  if (pool.averages) {
    float count = pool.counts_pads ? static_cast<float>(down.counted) * static_cast<float>(along.counted)
                                   : static_cast<float>(down.end - down.first) * static_cast<float>(along.end - along.first);
    value = count == 0.0f ? 0.0f : value / count;
  }
  plan_store(plan_write(blocks, pool.y.place), pool.y.place.storage,
             sample * ys[0] + channel * ys[1] + row * ys[2] + column * ys[3], value);
}
