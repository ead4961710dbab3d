// Modules and kernels in PTX, by the interpreter that the test program lends.
//
//   load     text ──> entries, and variables in device memory with their first values; registers from the
//            comments of the stand-in compiler
//   launch   what a kernel may touch: the driver's blocks, the module's variables, and where plain memory
//            is the GPU's too the pages that its parameters point into
//
// What the interpreter finds wrong ends the context, as a fault on a GPU does, and is written down.

#include "interpreter.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "state.h"

namespace stand_in {

const Interpreter* interpreter = nullptr;

namespace {

constexpr std::size_t TOLD_BYTES = 1 << 20;
std::uint64_t seed = 1;

// The pages of the process that can be written, and where they end.
std::vector<Region> plain_pages() {
  std::vector<Region> pages;
  std::FILE* maps = std::fopen("/proc/self/maps", "r");
  if (maps == nullptr) return pages;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    unsigned long long from, to;
    char rights[8];
    if (std::sscanf(line, "%llx-%llx %7s", &from, &to, rights) != 3 || rights[0] != 'r') continue;
    // One allocation may lie in several mappings: advice on huge pages for a part of it splits them. Other threads map
    // meanwhile, and a mapping that has grown into its neighbour is told twice.
    bool goes_on = !pages.empty() && pages.back().base + pages.back().len >= from;
    if (goes_on) {
      Region& last = pages.back();
      last.len = std::max<std::uint64_t>(last.base + last.len, to) - last.base;
    } else {
      pages.push_back({from, to - from});
    }
  }
  std::fclose(maps);
  return pages;
}

// A mapping without the regions that are in it already.
void add_plain(std::vector<Region>& regions, Region page) {
  std::uint64_t at = page.base, end = page.base + page.len;
  std::vector<Region> known = regions;
  std::sort(known.begin(), known.end(), [](const Region& a, const Region& b) { return a.base < b.base; });
  for (const Region& region : known) {
    if (region.base + region.len <= at || region.base >= end) continue;
    if (region.base > at) regions.push_back({at, region.base - at});
    at = std::max(at, region.base + region.len);
  }
  if (at < end) regions.push_back({at, end - at});
}

// Everything that a kernel with these parameters may touch.
std::vector<Region> regions_of(const std::vector<unsigned char>& parameters) {
  std::vector<Region> regions;
  for (auto& [address, block] : blocks)
    if (block.is_ready) regions.push_back({address, block.n_bytes});
  for (auto& [handle, module] : modules)
    for (const Variable& variable : module->variables) regions.push_back({variable.address, variable.n_bytes, variable.is_const});
  if (attribute(PAGEABLE_ACCESS) == 0) return regions;
  std::vector<Region> pages;
  for (std::size_t at = 0; at + 8 <= parameters.size(); at += 8) {
    std::uint64_t value;
    std::memcpy(&value, parameters.data() + at, 8);
    auto holds = [=](const Region& region) { return value >= region.base && value - region.base < region.len; };
    if (value == 0 || is_in_arena(value) || std::any_of(regions.begin(), regions.end(), holds)) continue;
    if (pages.empty()) pages = plain_pages();
    auto page = std::find_if(pages.begin(), pages.end(), holds);
    if (page != pages.end()) add_plain(regions, *page);
  }
  return regions;
}

// The lines `// registers name 40` of compiler.cpp.
void read_registers(const std::string& ptx, Module& module) {
  static const std::string MARK = "\n// registers ";
  for (std::size_t at = ptx.find(MARK); at != std::string::npos; at = ptx.find(MARK, at)) {
    at += MARK.size();
    std::size_t space = ptx.find(' ', at);
    auto entry = module.entries.find(ptx.substr(at, space - at));
    if (entry != module.entries.end()) entry->second.registers = static_cast<unsigned>(std::atoi(ptx.c_str() + space));
    at = space;
  }
}

}  // namespace

std::uint64_t next_seed() { return seed++; }

Result load_ptx(const std::string& ptx, Module& module, std::string& why) {
  if (interpreter == nullptr) { why = "no interpreter is lent"; return INVALID_PTX; }
  std::string told(TOLD_BYTES, '\0');
  module.code = interpreter->load(ptx.data(), ptx.size(), told.data(), told.size());
  told.resize(std::strlen(told.c_str()));
  if (module.code == NOT_ON_TARGET) { module.code = 0; return INVALID_PTX; }
  if (module.code == 0) { why = told; return INVALID_PTX; }
  for (std::size_t at = 0; at < told.size();) {
    std::size_t end = std::min(told.find('\n', at), told.size());
    std::string line = told.substr(at, end - at);
    at = end + 1;
    std::size_t kind = line.find(' '), name = line.find(' ', kind + 1);
    std::string what = line.substr(0, kind), own = line.substr(kind + 1, name - kind - 1);
    const char* numbers = line.c_str() + name;
    char* rest;
    auto next = [&] { std::size_t number = std::strtoull(numbers, &rest, 10); numbers = rest; return number; };
    if (what == "global") {
      std::size_t n_bytes = next();
      Address address = take_device(std::max<std::size_t>(n_bytes, 1));
      if (address == 0) return OUT_OF_MEMORY;
      module.variables.push_back({own, n_bytes, address, next() != 0});
      continue;
    }
    Entry& entry = module.entries[own];
    entry.static_bytes = next();
    entry.parameter_bytes = next();
    entry.most_threads = next();
    for (std::size_t& size : entry.required_block) size = next();
    while (*numbers != 0) {
      std::size_t offset = next();
      entry.parameters.push_back({offset, next()});
    }
  }
  read_registers(ptx, module);
  std::vector<std::uint64_t> addresses;
  for (const Variable& variable : module.variables) addresses.push_back(variable.address);
  DeviceOpen open;
  for (std::size_t idx = 0; idx < module.variables.size(); ++idx) {
    const Variable& variable = module.variables[idx];
    void* bytes = reinterpret_cast<void*>(variable.address);
    std::memset(bytes, 0, variable.n_bytes);
    interpreter->initial_bytes(module.code, idx, addresses.data(), addresses.size(), bytes, variable.n_bytes);
    note_written(variable.address, variable.n_bytes);
  }
  return SUCCESS;
}

void unload_ptx(Module& module) {
  for (const Variable& variable : module.variables) give_device(variable.address, std::max<std::size_t>(variable.n_bytes, 1));
  module.variables.clear();
  if (module.code != 0) interpreter->unload(module.code);
  module.code = 0;
}

void run_ptx(const Function& function, const unsigned* grid, const unsigned* block, unsigned shared_bytes,
             const std::vector<unsigned char>& parameters) {
  auto* module = find(modules, function.module);
  if (module == nullptr) return fail(ILLEGAL_ADDRESS, function.name + " ran after its module was gone");
  std::vector<std::uint64_t> globals;
  for (const Variable& variable : (*module)->variables) globals.push_back(variable.address);
  std::vector<Region> regions = regions_of(parameters);
  Request request{};
  request.module = (*module)->code;
  request.entry = function.name.c_str();
  request.entry_len = function.name.size();
  std::memcpy(request.grid, grid, sizeof request.grid);
  std::memcpy(request.block, block, sizeof request.block);
  request.dynamic_shared_bytes = shared_bytes;
  request.persona = persona();
  request.seed = next_seed();
  request.parameters = parameters.data();
  request.parameter_bytes = parameters.size();
  request.globals = globals.data();
  request.n_globals = globals.size();
  request.regions = regions.data();
  request.n_regions = regions.size();
  std::string told(TOLD_BYTES, '\0');
  DeviceOpen open;
  Result code = interpreter->launch(&request, told.data(), told.size());
  if (code != SUCCESS) fail(code, told.c_str());
}

void note_written(Address address, std::size_t n_bytes) {
  if (interpreter != nullptr && is_in_arena(address)) interpreter->written(address, n_bytes);
}

}  // namespace stand_in

using namespace stand_in;

// Lends the driver an interpreter for the life of the process.
extern "C" __attribute__((visibility("default"))) void stand_in_set_interpreter(const Interpreter* lent) {
  std::lock_guard<std::mutex> guard(lock);
  interpreter = lent;
}

// The order of blocks and warps in the launches from now on.
extern "C" __attribute__((visibility("default"))) void stand_in_set_seed(std::uint64_t first) {
  std::lock_guard<std::mutex> guard(lock);
  seed = first;
}
