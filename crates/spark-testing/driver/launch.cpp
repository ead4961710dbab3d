// Launching a kernel: its arguments are taken now, its blocks run when the stream comes to it.

#include <algorithm>

#include "state.h"

using namespace stand_in;

namespace {

using Value = std::vector<std::uint64_t>;

struct Launch {
  unsigned grid[3], block[3];
  unsigned shared_bytes;
};

Result check(const Launch& launch, const Function& function) {
  auto product = [](const unsigned* sizes) { return std::uint64_t{sizes[0]} * sizes[1] * sizes[2]; };
  std::uint64_t threads = product(launch.block);
  if (product(launch.grid) == 0 || threads == 0 || threads > 1024) return INVALID_VALUE;
  if (launch.shared_bytes > function.most_dynamic) return INVALID_VALUE;
  // That such a launch fails is documented; with which code is not.
  const Entry& entry = function.entry;
  if (entry.most_threads != 0 && threads > entry.most_threads) return INVALID_VALUE;
  if (entry.required_block[0] != 0 && !std::equal(launch.block, launch.block + 3, entry.required_block)) return INVALID_VALUE;
  auto room = static_cast<std::size_t>(attribute(REGISTERS_PER_BLOCK));
  return registers_of_block(function.entry.registers, threads) > room ? LAUNCH_OUT_OF_RESOURCES : SUCCESS;
}

std::vector<Value> values_of(const spark_on_host::Kernel& kernel, void** arguments) {
  std::vector<Value> values;
  for (std::size_t idx = 0; idx < kernel.n_arguments; ++idx) {
    Value value((kernel.argument_bytes[idx] + 7) / 8);
    std::memcpy(value.data(), arguments[idx], kernel.argument_bytes[idx]);
    values.push_back(std::move(value));
  }
  return values;
}

// Runs the kernel, now.
void run(const spark_on_host::Kernel& kernel, const Launch& launch, std::vector<Value>& values) {
  if (Result code = kernel_fails()) { sticky = code; return; }
  std::vector<void*> places;
  for (std::size_t idx = 0; idx < values.size(); ++idx) {
    Value& value = values[idx];
    places.push_back(value.data());
    bool is_gone = kernel.argument_bytes[idx] == 8 && is_in_arena(value[0]) && !is_usable(value[0], 1);
    if (is_gone) return fail(ILLEGAL_ADDRESS, std::string(kernel.name) + " was given memory that is gone, or not there yet");
  }
  DeviceOpen open;
  auto dim = [](const unsigned* sizes) { return spark_on_host::Dim3{sizes[0], sizes[1], sizes[2]}; };
  std::string wrong = spark_on_host::run_grid(dim(launch.grid), dim(launch.block), launch.shared_bytes,
                                              [&] { kernel.invoke(places.data()); });
  if (!wrong.empty()) fail(LAUNCH_TIMEOUT, std::string(kernel.name) + ": " + wrong);
}

Result queue(const Launch& launch, void* handle_of_function, void* handle, void** arguments, void** extra) {
  auto* stream = find(streams, handle);
  auto* function = find(functions, handle_of_function);
  if (stream == nullptr || function == nullptr) return INVALID_HANDLE;
  if (extra != nullptr) return INVALID_VALUE;
  if (Result refused = check(launch, **function)) return refused;
  const spark_on_host::Kernel* kernel = (*function)->kernel;
  if (kernel == nullptr) {
    // The module may be unloaded once this is queued; that waits for the queue.
    const Function* own = function->get();
    std::vector<unsigned char> bytes(own->entry.parameter_bytes);
    const std::vector<Parameter>& parameters = own->entry.parameters;
    for (std::size_t idx = 0; idx < parameters.size(); ++idx)
      std::memcpy(bytes.data() + parameters[idx].offset, arguments[idx], parameters[idx].n_bytes);
    auto run_it = [=] {
      if (Result code = kernel_fails()) { sticky = code; return; }
      run_ptx(*own, launch.grid, launch.block, launch.shared_bytes, bytes);
    };
    submit(**stream, {run_it, true});
    return SUCCESS;
  }
  auto values = std::make_shared<std::vector<Value>>(values_of(*kernel, arguments));
  submit(**stream, {[=] { run(*kernel, launch, *values); }, true});
  return SUCCESS;
}

std::string name_of(void* handle) {
  auto* function = find(functions, handle);
  return function == nullptr ? "?" : (*function)->name;
}

// CUlaunchConfig and CUlaunchAttribute, as far as they are looked at.
struct Attribute { int id; char padding[4]; union { char room[64]; int number; } value; };
struct Configuration {
  unsigned grid[3], block[3], shared_bytes;
  void* stream;
  const Attribute* attributes;
  unsigned n_attributes;
};
constexpr int PROGRAMMATIC = 6;  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION

}  // namespace

API cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz,
                   unsigned shared_bytes, void* stream, void** arguments, void** extra) {
  ENTER_CONTEXT(cuLaunchKernel, name_of(function));
  return queue({{gx, gy, gz}, {bx, by, bz}, shared_bytes}, function, stream, arguments, extra);
}

// A kernel that may begin before the one in front of it has ended begins here when that has:
// what it must wait for itself is not seen.
API cuLaunchKernelEx(const Configuration* config, void* function, void** arguments, void** extra) {
  ENTER_CONTEXT(cuLaunchKernelEx, name_of(function));
  for (unsigned idx = 0; idx < config->n_attributes; ++idx) {
    if (config->attributes[idx].id != PROGRAMMATIC) return INVALID_VALUE;
    // From 9.0 on; how an older GPU's driver answers is not published.
    if (attribute(COMPUTE_MAJOR) < 9) return NOT_SUPPORTED;
  }
  Launch launch{};
  std::memcpy(launch.grid, config->grid, sizeof launch.grid);
  std::memcpy(launch.block, config->block, sizeof launch.block);
  launch.shared_bytes = config->shared_bytes;
  return queue(launch, function, config->stream, arguments, extra);
}
