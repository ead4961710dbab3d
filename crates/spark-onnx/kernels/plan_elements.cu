// Steps of a lowered plan that work element by element, a thread each: programs, copies, fills, gathers, resampling.
//
//   plan_program    y[i] = program(operand 0[i], operand 1[i], ...)           registers of f32 or i64, one thread's own
//   plan_copy       y[i] = x[i], from one storage to another
//   plan_fill       y[i] = value
//   plan_gather     y[o, i, r] = x[o, index[i], r], negative positions from the end
//   plan_resample   y[.., o, ..] = sum over t of weight[o, t] * x[.., index[o, t], ..]
//
// Programs are interpreted: instructions and operands are tables among the constants.

#include "plan_math.cuh"

struct PlanCopy {
  PlanShape shape;
  PlanView x, y;
};

extern "C" __global__ void __launch_bounds__(128) plan_copy(PLAN_BLOCKS, PlanCopy step) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= step.shape.n) return;
  plan_move(plan_write(blocks, step.y.place), step.y.place.storage, plan_index(step.shape, step.y.strides, i),
            plan_read(blocks, step.x.place), step.x.place.storage, plan_index(step.shape, step.x.strides, i));
}

struct PlanFill {
  PlanShape shape;
  PlanView y;
  long long integer;
  float value;
  unsigned unused;
};

extern "C" __global__ void __launch_bounds__(128) plan_fill(PLAN_BLOCKS, PlanFill step) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= step.shape.n) return;
  unsigned char* y = plan_write(blocks, step.y.place);
  long long at = plan_index(step.shape, step.y.strides, i);
  if (step.y.place.storage == PLAN_I64) {
    reinterpret_cast<long long*>(y)[at] = step.integer;
  } else {
    plan_store(y, step.y.place.storage, at, step.value);
  }
}

struct PlanGather {
  PlanView x, index, y;  // [outer, extent, inner], [positions], [outer, positions, inner]
  unsigned count;        // elements of y
  unsigned positions, inner, extent;
  unsigned step;
  unsigned unused;
};

extern "C" __global__ void __launch_bounds__(128) plan_gather(PLAN_BLOCKS, PlanGather gather) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= gather.count) return;
  unsigned inner = i % gather.inner, rest = i / gather.inner;
  unsigned position = rest % gather.positions, outer = rest / gather.positions;
  const unsigned char* indices = plan_read(blocks, gather.index.place);
  long long given = reinterpret_cast<const long long*>(indices)[position * gather.index.strides[0]];
  long long at = given < 0 ? given + gather.extent : given;
  if (at < 0 || at >= gather.extent) {
    plan_report(outputs, gather.step, PLAN_INDEX_OUTSIDE, given, gather.extent);
    at = 0;
  }
  const long long *xs = gather.x.strides, *ys = gather.y.strides;
  plan_move(plan_write(blocks, gather.y.place), gather.y.place.storage,
            outer * ys[0] + position * ys[1] + inner * ys[2], plan_read(blocks, gather.x.place),
            gather.x.place.storage, outer * xs[0] + at * xs[1] + inner * xs[2]);
}

struct PlanResample {
  PlanShape shape;             // of y
  PlanView x, y;               // the stride of x along the axis is 0 here
  long long x_stride;          // along the axis
  unsigned long long index;    // u32 [extent of y][taps] among the constants
  unsigned long long weights;  // f32 alike, if there are any
  unsigned axis, taps;
  unsigned has_weights, unused;
};

extern "C" __global__ void __launch_bounds__(128) plan_resample(PLAN_BLOCKS, PlanResample step) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= step.shape.n) return;
  unsigned along = i;
  for (unsigned axis = step.shape.rank; --axis > step.axis;) along /= step.shape.extents[axis];
  along %= step.shape.extents[step.axis];
  unsigned long long first = static_cast<unsigned long long>(along) * step.taps;
  const unsigned* index = reinterpret_cast<const unsigned*>(constants + step.index) + first;
  long long from = plan_index(step.shape, step.x.strides, i), to = plan_index(step.shape, step.y.strides, i);
  const unsigned char* x = plan_read(blocks, step.x.place);
  unsigned char* y = plan_write(blocks, step.y.place);
  if (!step.has_weights) {
    plan_move(y, step.y.place.storage, to, x, step.x.place.storage, from + index[0] * step.x_stride);
    return;
  }
  const float* weights = reinterpret_cast<const float*>(constants + step.weights) + first;
  float sum = 0.0f;
  for (unsigned tap = 0; tap < step.taps; ++tap) {
    sum += weights[tap] * plan_load(x, step.x.place.storage, from + index[tap] * step.x_stride);
  }
  plan_store(y, step.y.place.storage, to, sum);
}

#define PLAN_LOAD 64u
#define PLAN_CONSTANT_F32 65u
#define PLAN_CONSTANT_I64 66u
#define PLAN_ADD 67u
#define PLAN_SUB 68u
#define PLAN_MUL 69u
#define PLAN_DIV 70u
#define PLAN_POW 71u
#define PLAN_REMAINDER_TRUNCATED 72u
#define PLAN_REMAINDER_FLOORED 73u
#define PLAN_PRELU 74u
#define PLAN_AND 75u
#define PLAN_OR 76u
#define PLAN_XOR 77u
#define PLAN_BIT_AND 78u
#define PLAN_BIT_OR 79u
#define PLAN_BIT_XOR 80u
#define PLAN_EQUAL 81u
#define PLAN_LESS 82u
#define PLAN_LESS_OR_EQUAL 83u
#define PLAN_GREATEST 84u
#define PLAN_LEAST 85u
#define PLAN_TO_BYTE 86u
#define PLAN_SELECT 87u
#define PLAN_TO_F32 88u
#define PLAN_TO_I64 89u
#define PLAN_TO_BOOL 90u
#define PLAN_ROUND_F16 91u
#define PLAN_ROUND_BF16 92u
#define PLAN_WRAP 93u

#define PLAN_MOST_REGISTERS 24

struct PlanInstruction {
  unsigned code;
  unsigned is_integer;  // operands, or where there are none the result
  unsigned to;
  unsigned args[3];
  float a, b;
  long long value;  // an operand's number, an integer, or bits and whether they have a sign
};

struct PlanProgram {
  PlanShape shape;
  PlanView y;
  unsigned long long operands;      // views among the constants
  unsigned long long instructions;  // among the constants
  unsigned n_instructions, result;
  unsigned step;
  unsigned unused;
};

union Register {
  long long i;
  float f;
};

__device__ __forceinline__ long long wrapped(long long value, long long how) {
  unsigned shift = 64 - static_cast<unsigned>(how & 0xFF);
  unsigned long long high = static_cast<unsigned long long>(value) << shift;
  return how & 0x100 ? static_cast<long long>(high) >> shift : static_cast<long long>(high >> shift);
}

// Towards zero, to the nearest end where it does not fit; NaN gives 0.
__device__ __forceinline__ long long integer_of(float x) {
  if (x != x) return 0;
  if (x >= 9223372036854775808.0f) return 0x7FFFFFFFFFFFFFFFll;
  if (x <= -9223372036854775808.0f) return -0x7FFFFFFFFFFFFFFFll - 1;
  return static_cast<long long>(x);
}

__device__ __forceinline__ float through_bf16(float x) {
  unsigned bits = __float_as_uint(x);
  if (x != x) return x;
  return __uint_as_float((bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u);
}

__device__ __forceinline__ float floored_remainder(float a, float b) {
  float r = fmodf(a, b);
  if (r == 0.0f) return copysignf(0.0f, b);
  return (r < 0.0f) != (b < 0.0f) ? r + b : r;
}

// NaN in either stays.
__device__ __forceinline__ float greatest(float a, float b) { return a != a || a > b ? a : b; }
__device__ __forceinline__ float least(float a, float b) { return a != a || a < b ? a : b; }

__device__ __forceinline__ Register float_step(const PlanInstruction& instruction, Register x, Register y, Register z) {
  Register to = {0};
  float a = x.f, b = y.f;
  switch (instruction.code) {
    case PLAN_CONSTANT_F32: to.f = instruction.a; break;
    case PLAN_ADD: to.f = a + b; break;
    case PLAN_SUB: to.f = a - b; break;
    case PLAN_MUL: to.f = a * b; break;
    case PLAN_DIV: to.f = a / b; break;
    case PLAN_POW: to.f = b == 2.0f ? a * a : b == 0.5f ? sqrtf(a) : b == 1.0f ? a : powf(a, b); break;
    case PLAN_REMAINDER_TRUNCATED: to.f = fmodf(a, b); break;
    case PLAN_REMAINDER_FLOORED: to.f = floored_remainder(a, b); break;
    case PLAN_PRELU: to.f = a < 0.0f ? a * b : a; break;
    case PLAN_AND: to.f = a != 0.0f && b != 0.0f ? 1.0f : 0.0f; break;
    case PLAN_OR: to.f = a != 0.0f || b != 0.0f ? 1.0f : 0.0f; break;
    case PLAN_XOR: to.f = (a != 0.0f) != (b != 0.0f) ? 1.0f : 0.0f; break;
    case PLAN_EQUAL: to.f = a == b ? 1.0f : 0.0f; break;
    case PLAN_LESS: to.f = a < b ? 1.0f : 0.0f; break;
    case PLAN_LESS_OR_EQUAL: to.f = a <= b ? 1.0f : 0.0f; break;
    case PLAN_GREATEST: to.f = greatest(a, b); break;
    case PLAN_LEAST: to.f = least(a, b); break;
    case PLAN_TO_BYTE: to.f = a != a ? 0.0f : plan_clamp(a, instruction.a, instruction.b); break;
    case PLAN_SELECT: to.f = a != 0.0f ? b : z.f; break;
    case PLAN_TO_I64: to.i = integer_of(a); break;
    case PLAN_TO_BOOL: to.f = a != 0.0f ? 1.0f : 0.0f; break;
    case PLAN_ROUND_F16: to.f = plan_float_of_half(plan_half_of_float(a)); break;
    case PLAN_ROUND_BF16: to.f = through_bf16(a); break;
    case PLAN_WRAP: to.f = static_cast<float>(wrapped(integer_of(a), instruction.value)); break;
    default: to.f = plan_function(instruction.code, a, instruction.a, instruction.b); break;
  }
  return to;
}

__device__ __forceinline__ Register integer_step(const PlanInstruction& instruction, Register x, Register y, Register z,
                                                 bool* divides_by_zero) {
  Register to = {0};
  long long a = x.i, b = y.i;
  // Sums and products wrap.
  unsigned long long ua = static_cast<unsigned long long>(a), ub = static_cast<unsigned long long>(b);
  switch (instruction.code) {
    case PLAN_CONSTANT_I64: to.i = instruction.value; break;
    case PLAN_ABS: to.i = static_cast<long long>(a < 0 ? 0 - ua : ua); break;
    case PLAN_NEG: to.i = static_cast<long long>(0 - ua); break;
    case PLAN_SIGN: to.i = a > 0 ? 1 : a < 0 ? -1 : 0; break;
    case PLAN_RELU: to.i = a > 0 ? a : 0; break;
    case PLAN_BIT_NOT: to.i = ~a; break;
    case PLAN_ADD: to.i = static_cast<long long>(ua + ub); break;
    case PLAN_SUB: to.i = static_cast<long long>(ua - ub); break;
    case PLAN_MUL: to.i = static_cast<long long>(ua * ub); break;
    case PLAN_DIV:
    case PLAN_REMAINDER_TRUNCATED:
    case PLAN_REMAINDER_FLOORED:
      if (b == 0) {
        *divides_by_zero = true;
        to.i = 0;
      } else if (instruction.code == PLAN_DIV) {
        to.i = b == -1 ? static_cast<long long>(0 - ua) : a / b;
      } else {
        long long r = b == -1 ? 0 : a % b;
        bool turns = instruction.code == PLAN_REMAINDER_FLOORED && r != 0 && (r < 0) != (b < 0);
        to.i = turns ? r + b : r;
      }
      break;
    case PLAN_BIT_AND: to.i = a & b; break;
    case PLAN_BIT_OR: to.i = a | b; break;
    case PLAN_BIT_XOR: to.i = a ^ b; break;
    case PLAN_EQUAL: to.f = a == b ? 1.0f : 0.0f; break;
    case PLAN_LESS: to.f = a < b ? 1.0f : 0.0f; break;
    case PLAN_LESS_OR_EQUAL: to.f = a <= b ? 1.0f : 0.0f; break;
    case PLAN_GREATEST: to.i = a > b ? a : b; break;
    case PLAN_LEAST: to.i = a < b ? a : b; break;
    case PLAN_SELECT: to.i = x.f != 0.0f ? b : z.i; break;
    case PLAN_TO_F32: to.f = static_cast<float>(a); break;
    case PLAN_TO_BOOL: to.f = a != 0 ? 1.0f : 0.0f; break;
    case PLAN_WRAP: to.i = wrapped(a, instruction.value); break;
    default: to.i = a; break;
  }
  return to;
}

extern "C" __global__ void __launch_bounds__(128) plan_program(PLAN_BLOCKS, PlanProgram program) {
  PlanBlocks blocks{arena, outputs, inputs, constants};
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= program.shape.n) return;
  const PlanView* operands = reinterpret_cast<const PlanView*>(constants + program.operands);
  const PlanInstruction* instructions = reinterpret_cast<const PlanInstruction*>(constants + program.instructions);
  Register registers[PLAN_MOST_REGISTERS] = {};
  bool divides_by_zero = false;
  for (unsigned n = 0; n < program.n_instructions; ++n) {
    const PlanInstruction& instruction = instructions[n];
    Register to = {0};
    if (instruction.code == PLAN_LOAD) {
      const PlanView& operand = operands[instruction.value];
      const unsigned char* at = plan_read(blocks, operand.place);
      long long index = plan_index(program.shape, operand.strides, i);
      if (operand.place.storage == PLAN_I64) {
        to.i = reinterpret_cast<const long long*>(at)[index];
      } else {
        to.f = plan_load(at, operand.place.storage, index);
      }
    } else {
      Register x = registers[instruction.args[0]], y = registers[instruction.args[1]];
      Register z = registers[instruction.args[2]];
      to = instruction.is_integer ? integer_step(instruction, x, y, z, &divides_by_zero)
                                  : float_step(instruction, x, y, z);
      if (divides_by_zero) {
        plan_report(outputs, program.step, PLAN_DIVIDED_BY_ZERO, n, 0);
        divides_by_zero = false;
      }
    }
    registers[instruction.to] = to;
  }
  Register result = registers[program.result];
  unsigned char* y = plan_write(blocks, program.y.place);
  long long at = plan_index(program.shape, program.y.strides, i);
  if (program.y.place.storage == PLAN_I64) {
    reinterpret_cast<long long*>(y)[at] = result.i;
  } else {
    plan_store(y, program.y.place.storage, at, result.f);
  }
}
