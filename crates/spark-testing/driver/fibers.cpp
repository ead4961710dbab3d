// Fibers on ucontext; see fibers.h.

#include "fibers.h"

#include <sys/mman.h>
#include <ucontext.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define SPARK_ASAN 1
#endif

// The linker's names for the section of static shared memory; absent if no kernel has any.
extern "C" char __start_spark_shared[] __attribute__((weak, visibility("hidden")));
extern "C" char __stop_spark_shared[] __attribute__((weak, visibility("hidden")));

namespace spark_on_host {

Dim3 threadIdx, blockIdx, blockDim, gridDim;
const Kernel* kernels = nullptr;
const Symbol* symbols = nullptr;

namespace {

constexpr std::size_t STACK_BYTES = 256 << 10;
constexpr unsigned char POISON = 0xCD;

struct LaterCopy { void* to; const void* from; std::size_t n_bytes; };

struct Fiber {
  ucontext_t context;
  char* stack;
  Dim3 index;
  bool is_done;
  unsigned block_ticket, warp_ticket;
  std::vector<LaterCopy> later;
#ifdef SPARK_ASAN
  void* fake_stack;
#endif
};

std::vector<std::unique_ptr<Fiber>> fibers;
std::vector<unsigned char> slots;
std::vector<unsigned char> scratch;
std::vector<unsigned char> dynamic;
std::vector<int> flags;
ucontext_t scheduler;
std::size_t n_threads = 0, current = 0;
unsigned long progress = 0;
const std::function<void()>* work = nullptr;
#ifdef SPARK_ASAN
const void* scheduler_stack = nullptr;
std::size_t scheduler_stack_bytes = 0;
void* scheduler_fake_stack = nullptr;
#endif

void yield() {
  Fiber& self = *fibers[current];
#ifdef SPARK_ASAN
  __sanitizer_start_switch_fiber(self.is_done ? nullptr : &self.fake_stack, scheduler_stack, scheduler_stack_bytes);
#endif
  swapcontext(&self.context, &scheduler);
#ifdef SPARK_ASAN
  __sanitizer_finish_switch_fiber(self.fake_stack, &scheduler_stack, &scheduler_stack_bytes);
#endif
}

void entry() {
#ifdef SPARK_ASAN
  __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack, &scheduler_stack_bytes);
#endif
  (*work)();
  fibers[current]->is_done = true;
  ++progress;
  yield();
  std::abort();  // a finished fiber is never resumed
}

void prepare(std::size_t idx) {
  if (idx == fibers.size()) {
    auto fiber = std::make_unique<Fiber>();
    void* stack = mmap(nullptr, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack == MAP_FAILED) std::abort();
    mprotect(stack, 4096, PROT_NONE);  // a stack that overflows faults
    fiber->stack = static_cast<char*>(stack);
    fibers.push_back(std::move(fiber));
  }
  Fiber& fiber = *fibers[idx];
  fiber.is_done = false;
  fiber.block_ticket = fiber.warp_ticket = 0;
  fiber.later.clear();
  unsigned i = static_cast<unsigned>(idx);
  fiber.index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
#ifdef SPARK_ASAN
  fiber.fake_stack = nullptr;
  // Frames of an earlier use that never returned have left their red zones behind.
  __asan_unpoison_memory_region(fiber.stack + 4096, STACK_BYTES - 4096);
#endif
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack + 4096;
  fiber.context.uc_stack.ss_size = STACK_BYTES - 4096;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, entry, 0);
}

void resume(std::size_t idx) {
  current = idx;
  threadIdx = fibers[idx]->index;
#ifdef SPARK_ASAN
  __sanitizer_start_switch_fiber(&scheduler_fake_stack, fibers[idx]->stack + 4096, STACK_BYTES - 4096);
#endif
  swapcontext(&scheduler, &fibers[idx]->context);
#ifdef SPARK_ASAN
  __sanitizer_finish_switch_fiber(scheduler_fake_stack, nullptr, nullptr);
#endif
}

std::string deadlock() {
  std::string where = "the block waits for itself:";
  for (std::size_t idx = 0; idx < n_threads && where.size() < 400; ++idx) {
    const Fiber& fiber = *fibers[idx];
    char text[96];
    std::snprintf(text, sizeof text, " thread %zu %s (block barriers %u, warp barriers %u);", idx,
                  fiber.is_done ? "ended" : "waits", fiber.block_ticket, fiber.warp_ticket);
    where += text;
  }
  return where;
}

std::string run_block(unsigned shared_bytes) {
  if (__start_spark_shared != nullptr) {
    std::memset(__start_spark_shared, POISON, static_cast<std::size_t>(__stop_spark_shared - __start_spark_shared));
  }
  dynamic.assign(shared_bytes + 16, POISON);
  for (std::size_t idx = 0; idx < n_threads; ++idx) prepare(idx);
  std::size_t n_left = n_threads;
  while (n_left > 0) {
    unsigned long before = progress;
    for (std::size_t idx = 0; idx < n_threads; ++idx) {
      if (fibers[idx]->is_done) continue;
      resume(idx);
      if (fibers[idx]->is_done) --n_left;
    }
    if (progress == before) return deadlock();
  }
  return {};
}

std::size_t warp_start() { return current / 32 * 32; }

}  // namespace

std::string run_grid(Dim3 grid, Dim3 block, unsigned shared_bytes, const std::function<void()>& body) {
  gridDim = grid;
  blockDim = block;
  n_threads = std::size_t{block.x} * block.y * block.z;
  slots.resize(n_threads * LANE_BYTES);
  scratch.resize((n_threads + 31) / 32 * WARP_SCRATCH_BYTES);
  flags.resize(n_threads);
  work = &body;
  for (blockIdx.z = 0; blockIdx.z < grid.z; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < grid.y; ++blockIdx.y)
      for (blockIdx.x = 0; blockIdx.x < grid.x; ++blockIdx.x) {
        std::string wrong = run_block(shared_bytes);
        if (!wrong.empty()) return wrong;
      }
  return {};
}

int lane() { return static_cast<int>(current % 32); }

void block_barrier() {
  std::size_t self = current;
  Dim3 index = threadIdx;
  unsigned ticket = ++fibers[self]->block_ticket;
  ++progress;
  for (;;) {
    bool is_open = true;
    for (std::size_t idx = 0; idx < n_threads && is_open; ++idx)
      is_open = fibers[idx]->is_done || fibers[idx]->block_ticket >= ticket;
    if (is_open) break;
    yield();
  }
  threadIdx = index;
}

void warp_barrier(unsigned mask) {
  std::size_t start = warp_start();
  Dim3 index = threadIdx;
  unsigned ticket = ++fibers[current]->warp_ticket;
  ++progress;
  for (;;) {
    bool is_open = true;
    for (std::size_t idx = start; idx < start + 32 && idx < n_threads && is_open; ++idx)
      if ((mask >> (idx - start) & 1) != 0) is_open = fibers[idx]->is_done || fibers[idx]->warp_ticket >= ticket;
    if (is_open) break;
    yield();
  }
  threadIdx = index;
}

void exchange(unsigned mask, const void* value, std::size_t n_bytes, int from, void* result) {
  std::memcpy(&slots[current * LANE_BYTES], value, n_bytes);
  warp_barrier(mask);
  std::size_t source = warp_start() + static_cast<std::size_t>(from);
  // Lanes that do not exist or have ended give their own value back, as undefined values go.
  if (source >= n_threads) source = current;
  std::memcpy(result, &slots[source * LANE_BYTES], n_bytes);
  warp_barrier(mask);
}

unsigned ballot(unsigned mask, bool predicate) {
  flags[current] = predicate;
  warp_barrier(mask);
  unsigned votes = 0;
  for (std::size_t idx = warp_start(); idx < warp_start() + 32 && idx < n_threads; ++idx) {
    unsigned bit = static_cast<unsigned>(idx - warp_start());
    if ((mask >> bit & 1) != 0 && !fibers[idx]->is_done && flags[idx] != 0) votes |= 1u << bit;
  }
  warp_barrier(mask);
  return votes;
}

int block_count(bool predicate) {
  flags[current] = predicate;
  block_barrier();
  int count = 0;
  for (std::size_t idx = 0; idx < n_threads; ++idx) count += !fibers[idx]->is_done && flags[idx] != 0;
  block_barrier();
  return count;
}

void* dynamic_shared() {
  auto address = reinterpret_cast<std::uintptr_t>(dynamic.data());
  return dynamic.data() + (16 - address % 16) % 16;
}

unsigned char* warp_scratch() { return &scratch[current / 32 * WARP_SCRATCH_BYTES]; }

void copy_later(void* to, const void* from, std::size_t n_bytes) {
  fibers[current]->later.push_back({to, from, n_bytes});
}

void wait_copies_of_thread() {
  for (const LaterCopy& copy : fibers[current]->later) std::memcpy(copy.to, copy.from, copy.n_bytes);
  fibers[current]->later.clear();
}

}  // namespace spark_on_host
