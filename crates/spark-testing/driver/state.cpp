// Device memory, queues of work, and when work runs; see state.h.

#include "state.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <iterator>

namespace stand_in {

std::map<Address, Block> blocks;
std::map<void*, std::shared_ptr<Stream>> streams;
std::map<void*, std::unique_ptr<Event>> events;
std::map<void*, std::unique_ptr<Module>> modules;
std::map<void*, std::unique_ptr<Function>> functions;
std::map<void*, std::shared_ptr<Graph>> graphs;
int context_count = 0;
Result sticky = 0;
thread_local void* current_context = nullptr;

// --- device memory -------------------------------------------------------------------------

namespace {

constexpr std::size_t MARGIN = 256;          // behind every device block, to see writes past it
constexpr unsigned char MARGIN_BYTE = 0xA5;
constexpr unsigned char FRESH_BYTE = 0xCD;
constexpr std::size_t ARENA_BYTES = std::size_t{8} << 30;

unsigned char* arena = nullptr;
std::map<std::size_t, std::size_t> free_ranges;  // offset -> bytes
std::size_t arena_used = 0;
int n_open = 0;

std::size_t room_for(std::size_t n_bytes) { return (n_bytes + MARGIN + PAGE - 1) / PAGE * PAGE; }

// The pages go back to the machine: opening and closing the arena takes time for each that is there.
void free_range(std::size_t offset, std::size_t room) {
  madvise(arena + offset, room, MADV_DONTNEED);
  auto after = free_ranges.lower_bound(offset);
  if (after != free_ranges.end() && after->first == offset + room) {
    room += after->second;
    after = free_ranges.erase(after);
  }
  if (after != free_ranges.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == offset) {
      before->second += room;
      return;
    }
  }
  free_ranges[offset] = room;
}

}  // namespace

DeviceOpen::DeviceOpen() {
  if (n_open++ == 0 && arena_used > 0) mprotect(arena, arena_used, PROT_READ | PROT_WRITE);
}
DeviceOpen::~DeviceOpen() {
  if (--n_open == 0 && arena_used > 0) mprotect(arena, arena_used, PROT_NONE);
}

Address take_device(std::size_t n_bytes) {
  std::size_t room = room_for(n_bytes);
  if (arena == nullptr) {
    void* made = mmap(nullptr, ARENA_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (made == MAP_FAILED) return 0;
    arena = static_cast<unsigned char*>(made);
  }
  std::size_t offset = arena_used;
  auto fits = std::find_if(free_ranges.begin(), free_ranges.end(), [&](auto& range) { return range.second >= room; });
  if (fits != free_ranges.end()) {
    offset = fits->first;
    std::size_t left = fits->second - room;
    free_ranges.erase(fits);
    if (left > 0) free_ranges[offset + room] = left;
  } else {
    if (room > ARENA_BYTES - arena_used) return 0;
    arena_used += room;
    if (n_open > 0) mprotect(arena + offset, room, PROT_READ | PROT_WRITE);
  }
  DeviceOpen open;
  if (interpreter != nullptr) interpreter->allocated(reinterpret_cast<Address>(arena + offset), n_bytes);
  std::memset(arena + offset, FRESH_BYTE, n_bytes);
  std::memset(arena + offset + n_bytes, MARGIN_BYTE, room - n_bytes);
  return reinterpret_cast<Address>(arena + offset);
}

void give_device(Address address, std::size_t n_bytes) {
  if (interpreter != nullptr) interpreter->freed(address);
  DeviceOpen open;
  auto* bytes = reinterpret_cast<unsigned char*>(address);
  std::size_t room = room_for(n_bytes);
  if (!std::all_of(bytes + n_bytes, bytes + room, [](unsigned char byte) { return byte == MARGIN_BYTE; }))
    violation("something wrote past the end of a device allocation of " + std::to_string(n_bytes) + " bytes");
  free_range(static_cast<std::size_t>(bytes - arena), room);
}

bool is_in_arena(Address address) {
  auto start = reinterpret_cast<Address>(arena);
  return arena != nullptr && address >= start && address < start + ARENA_BYTES;
}

const Block* block_of(Address address, std::size_t n_bytes) {
  auto after = blocks.upper_bound(address);
  if (after == blocks.begin()) return nullptr;
  --after;
  bool is_inside = address + n_bytes <= after->first + after->second.n_bytes;
  return is_inside && !after->second.is_going ? &after->second : nullptr;
}

static bool is_symbol(Address address, std::size_t n_bytes) {
  for (auto& [handle, module] : modules) {
    for (const Variable& variable : module->variables)
      if (address >= variable.address && address + n_bytes <= variable.address + variable.n_bytes) return true;
  }
  for (const spark_on_host::Symbol* symbol = spark_on_host::symbols; symbol != nullptr; symbol = symbol->next) {
    auto start = reinterpret_cast<Address>(symbol->address);
    if (address >= start && address + n_bytes <= start + symbol->n_bytes) return true;
  }
  return false;
}

bool is_reachable(Address address, std::size_t n_bytes) {
  if (block_of(address, n_bytes) != nullptr || is_symbol(address, n_bytes)) return true;
  return !is_in_arena(address) && persona() == SPARK;
}

// A block that will go is still there for work in front of that.
bool is_usable(Address address, std::size_t n_bytes) {
  auto after = blocks.upper_bound(address);
  if (after != blocks.begin()) {
    --after;
    if (address + n_bytes <= after->first + after->second.n_bytes) return after->second.is_ready;
  }
  if (is_symbol(address, n_bytes)) return true;
  return !is_in_arena(address) && persona() == SPARK;
}

// --- work ----------------------------------------------------------------------------------

void run_until(Stream& stream, unsigned long ticket) {
  while (stream.n_done < ticket && !stream.queue.empty()) {
    Op op = std::move(stream.queue.front());
    stream.queue.pop_front();
    ++stream.n_done;
    if (sticky == 0) op();
  }
}

void run_all(Stream& stream) { run_until(stream, stream.n_queued); }
void run_everything() {
  for (auto& [handle, stream] : streams) run_all(*stream);
}

void submit(Stream& stream, Op op) {
  if (stream.capture) {
    auto& nodes = stream.capture->nodes;
    nodes.push_back({std::move(op), stream.tail});
    stream.tail = {nodes.size() - 1};
  } else {
    stream.queue.push_back(std::move(op));
    ++stream.n_queued;
  }
}

void fail(Result code, const std::string& why) {
  sticky = code;
  violation(why);
}

// --- handles -------------------------------------------------------------------------------

namespace { std::uintptr_t next_handle = 0x1000; }

void* context_handle() { return reinterpret_cast<void*>(std::uintptr_t{0xC0DE}); }
void* new_handle() { return reinterpret_cast<void*>(next_handle += 16); }

std::string hexadecimal(Address value) {
  char text[32];
  std::snprintf(text, sizeof text, "%llx", value);
  return text;
}

void forget_driver_state() {
  streams.clear();
  events.clear();
  for (auto& [handle, module] : modules) unload_ptx(*module);
  modules.clear();
  functions.clear();
  graphs.clear();
  for (auto& [address, block] : blocks) {
    if (block.kind == Kind::DEVICE) {
      if (interpreter != nullptr) interpreter->freed(address);
      free_range(address - reinterpret_cast<Address>(arena), room_for(block.n_bytes));
    } else std::free(reinterpret_cast<void*>(address));
  }
  blocks.clear();
  context_count = 0;
  sticky = 0;
  current_context = nullptr;  // of this thread, which is the one that starts over
}

}  // namespace stand_in

// --- for tests -----------------------------------------------------------------------------

extern "C" __attribute__((visibility("default"))) void stand_in_live(std::size_t counts[6]) {
  using namespace stand_in;
  std::lock_guard<std::mutex> guard(lock);
  counts[0] = blocks.size();
  counts[1] = streams.size();
  counts[2] = events.size();
  counts[3] = modules.size();
  counts[4] = graphs.size();
  counts[5] = static_cast<std::size_t>(context_count);
}
