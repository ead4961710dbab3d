// Modules, their functions and constants, and attributes of functions.
//
//   machine code  as the stand-in compiler writes it: an ELF header of 64 bytes, a first line, the
//                 target, the options, then `ptx` and the text that NVIDIA's compiler made, or one
//                 line per entry with its static shared memory
//   PTX           a text with .version, .target and .entry, as NVIDIA's compilers write it; it
//                 counts as compiled by the driver
//
// PTX is interpreted. Entries without any are bound to the kernels that the host compiler built, by
// name.

#include <algorithm>
#include <cctype>

#include "state.h"

using namespace stand_in;

namespace {

constexpr std::size_t ELF_HEADER_BYTES = 64;
constexpr std::size_t PLAIN_SHARED_BYTES = 48 << 10;
const char MAGIC[] = "spark stand-in cubin";

int compute() { return compute_of(persona()); }
std::size_t most_shared_bytes() { return static_cast<std::size_t>(attribute(SHARED_PER_BLOCK_OPTIN)); }

// Whether machine code for this target, as 90a or 120f, runs here as it is. Tegra runs its own alone, and
// nobody else runs that (CUDA C++ Programming Guide, "Binary Compatibility").
bool runs(const std::string& target) {
  int sm = std::atoi(target.c_str());
  char reach = std::isalpha(static_cast<unsigned char>(target.back())) ? target.back() : ' ';
  if (reach == 'a' || is_tegra(persona()) || sm == 87) return sm == compute();
  return sm / 10 == compute() / 10 && sm <= compute();
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

Result interpret(const std::string& ptx, Module& module) {
  std::string why;
  Result result = load_ptx(ptx, module, why);
  if (!why.empty()) violation("PTX is not interpreted: " + why);
  return result;
}

Result read_machine_code(const std::string& text, Module& module) {
  std::vector<std::string> lines = lines_of(text);
  if (lines.size() < 3 || lines[0] != MAGIC) return INVALID_IMAGE;
  if (!runs(lines[1].substr(3))) return NO_BINARY_FOR_GPU;
  static const std::string MARK = "\nptx\n";
  if (lines.size() > 3 && lines[3] == "ptx") return interpret(text.substr(text.find(MARK) + MARK.size()), module);
  for (std::size_t idx = 3; idx < lines.size(); ++idx) {
    std::size_t space = lines[idx].find(' ');
    module.entries[lines[idx].substr(0, space)].static_bytes = std::strtoul(lines[idx].c_str() + space, nullptr, 10);
  }
  return SUCCESS;
}

Result read_ptx(const std::string& text, Module& module) {
  std::size_t version = text.find(".version "), target = text.find(".target sm_");
  if (version == std::string::npos || target == std::string::npos) return INVALID_PTX;
  // PTX 9.0 is CUDA 13.0's; 8.x are those of CUDA 12.
  int ptx_major = std::atoi(text.c_str() + version + 9);
  if (ptx_major > driver_version() / 1000 - 4) return UNSUPPORTED_PTX_VERSION;
  std::size_t name = target + 11, end = name;
  while (std::isalnum(static_cast<unsigned char>(text[end]))) ++end;
  std::string sm = text.substr(name, end - name);
  bool is_plain = std::isdigit(static_cast<unsigned char>(sm.back()));
  if (is_plain ? std::atoi(sm.c_str()) > compute() : !runs(sm)) return INVALID_PTX;
  // What NVIDIA's compiler wrote says so; a test's own few lines hold no code.
  if (interpreter != nullptr && text.find(".address_size 64") != std::string::npos) return interpret(text, module);
  for (std::size_t at = text.find(".entry "); at != std::string::npos; at = text.find(".entry ", at + 1)) {
    std::size_t begin = at + 7;
    module.entries[text.substr(begin, text.find_first_of(" (\n", begin) - begin)];
  }
  return SUCCESS;
}

}  // namespace

API cuModuleLoadData(void** handle, const void* image) {
  ENTER_CONTEXT(cuModuleLoadData);
  const char* bytes = static_cast<const char*>(image);
  auto module = std::make_unique<Module>();
  bool is_machine_code = std::memcmp(bytes, "\x7f" "ELF", 4) == 0;
  Result result = is_machine_code ? read_machine_code(bytes + ELF_HEADER_BYTES, *module) : read_ptx(bytes, *module);
  if (result != SUCCESS) return result;
  *handle = new_handle();
  modules[*handle] = std::move(module);
  return SUCCESS;
}
API cuModuleUnload(void* handle) {
  ENTER_GIVING_BACK(cuModuleUnload);
  run_everything();
  if (auto* module = find(modules, handle)) unload_ptx(**module);
  if (modules.erase(handle) == 0) { violation("a module unloaded twice"); return INVALID_HANDLE; }
  for (auto at = functions.begin(); at != functions.end();) {
    at = at->second->module == handle ? functions.erase(at) : std::next(at);
  }
  return told;
}
API cuModuleGetFunction(void** function, void* handle, const char* name) {
  ENTER_CONTEXT(cuModuleGetFunction, name);
  auto* module = find(modules, handle);
  if (module == nullptr) return INVALID_HANDLE;
  auto entry = (*module)->entries.find(name);
  if (entry == (*module)->entries.end()) return NOT_FOUND;
  const spark_on_host::Kernel* kernel = nullptr;
  if ((*module)->code == 0) {
    kernel = spark_on_host::kernels;
    while (kernel != nullptr && std::strcmp(kernel->name, name) != 0) kernel = kernel->next;
    if (kernel == nullptr) return NOT_FOUND;
  }
  // One handle for a name, however often it is asked for.
  for (const auto& known : functions) {
    if (known.second->module == handle && known.second->name == name) {
      *function = known.first;
      return SUCCESS;
    }
  }
  std::size_t plain = PLAIN_SHARED_BYTES - std::min(PLAIN_SHARED_BYTES, entry->second.static_bytes);
  *function = new_handle();
  functions[*function] = std::make_unique<Function>(Function{kernel, name, handle, entry->second, plain});
  return SUCCESS;
}
API cuModuleGetGlobal_v2(Address* address, std::size_t* n_bytes, void* handle, const char* name) {
  ENTER_CONTEXT(cuModuleGetGlobal_v2, name);
  auto* module = find(modules, handle);
  if (module == nullptr) return INVALID_HANDLE;
  for (const Variable& variable : (*module)->variables) {
    if (variable.name != name) continue;
    *address = variable.address;
    *n_bytes = variable.n_bytes;
    return SUCCESS;
  }
  if ((*module)->code != 0) return NOT_FOUND;
  for (const spark_on_host::Symbol* symbol = spark_on_host::symbols; symbol != nullptr; symbol = symbol->next) {
    if (std::strcmp(symbol->name, name) != 0) continue;
    *address = reinterpret_cast<Address>(symbol->address);
    *n_bytes = symbol->n_bytes;
    return SUCCESS;
  }
  return NOT_FOUND;
}

API cuFuncGetAttribute(int* value, int number, void* handle) {
  ENTER_CONTEXT(cuFuncGetAttribute, std::to_string(number));
  auto* function = find(functions, handle);
  if (function == nullptr) return INVALID_HANDLE;
  if (number == 1) *value = static_cast<int>((*function)->entry.static_bytes);
  else if (number == 4) *value = static_cast<int>((*function)->entry.registers);
  else if (number == 8) *value = static_cast<int>((*function)->most_dynamic);
  else return INVALID_VALUE;
  return SUCCESS;
}
API cuFuncSetAttribute(void* handle, int number, int value) {
  ENTER_CONTEXT(cuFuncSetAttribute, std::to_string(value));
  auto* function = find(functions, handle);
  if (function == nullptr) return INVALID_HANDLE;
  if (number != 8) return SUCCESS;
  std::size_t n_bytes = static_cast<std::size_t>(std::max(value, 0));
  if ((*function)->entry.static_bytes + n_bytes > most_shared_bytes()) return INVALID_VALUE;
  (*function)->most_dynamic = n_bytes;
  return SUCCESS;
}
#ifndef STAND_IN_OLD_DRIVER
// As CUDA 12.4 and later: where a parameter lies and how long it is.
API cuFuncGetParamInfo(void* handle, std::size_t idx, std::size_t* offset, std::size_t* n_bytes) {
  ENTER_CONTEXT(cuFuncGetParamInfo, std::to_string(idx));
  auto* function = find(functions, handle);
  if (function == nullptr) return INVALID_HANDLE;
  const spark_on_host::Kernel* kernel = (*function)->kernel;
  const std::vector<Parameter>& parameters = (*function)->entry.parameters;
  if (idx >= (kernel == nullptr ? parameters.size() : kernel->n_arguments)) return INVALID_VALUE;
  *offset = kernel == nullptr ? parameters[idx].offset : 0;
  if (n_bytes != nullptr) *n_bytes = kernel == nullptr ? parameters[idx].n_bytes : kernel->argument_bytes[idx];
  return SUCCESS;
}
#endif
// Threads, shared memory and registers bound it; these are unknown to a host compiler.
API cuOccupancyMaxActiveBlocksPerMultiprocessor(int* n_blocks, void* handle, int threads, std::size_t shared_bytes) {
  ENTER_CONTEXT(cuOccupancyMaxActiveBlocksPerMultiprocessor);
  auto* function = find(functions, handle);
  if (function == nullptr || threads <= 0 || threads > 1024) return INVALID_VALUE;
  const Entry& entry = (*function)->entry;
  std::size_t shared = shared_bytes + entry.static_bytes;
  if (shared > most_shared_bytes()) return INVALID_VALUE;
  std::size_t registers = registers_of_block(entry.registers, static_cast<std::size_t>(threads));
  int by_threads = attribute(THREADS_PER_MULTIPROCESSOR) / ((threads + 31) / 32 * 32);
  int by_shared = attribute(SHARED_PER_MULTIPROCESSOR) / (static_cast<int>(shared) + attribute(RESERVED_SHARED_PER_BLOCK));
  int most = attribute(BLOCKS_PER_MULTIPROCESSOR);
  if (registers > 0) most = std::min(most, attribute(REGISTERS_PER_MULTIPROCESSOR) / static_cast<int>(registers));
  *n_blocks = std::min({most, by_threads, by_shared});
  return SUCCESS;
}
