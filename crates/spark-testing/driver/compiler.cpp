// A stand-in NVRTC: it finds the entries of a source and writes their names down.
//
// With NVIDIA's own NVRTC at hand (`stand_in_use_compiler`) that compiles, for machine code with its
// assembler, and the PTX is what stays:
//
//   sm_121a      ->  64 bytes of an ELF header, "spark stand-in cubin\nsm_121a\n<options>\nptx\n<PTX>",
//                    with the registers of each entry in comments at its end
//   compute_120  ->  the PTX
//
// so that an architecture refuses what it lacks in the assembler's own words, and everything but the
// machine code is what ships. What was compiled once is kept beside the library. Without it only names
// are found:
//
//   sm_121a      ->  "…<options>\nname 0\n"          entries with their static shared memory
//   compute_120  ->  ".version 8.4\n.target sm_120\n.visible .entry name()\n"
//
// Then `#error` lines and braces that do not match are compile errors with a log, and what the code
// means is checked by the host compiler, which builds every kernel.

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "record.h"

using namespace stand_in;

namespace {

enum : int { SUCCESS = 0, INVALID_PROGRAM = 4, INVALID_OPTION = 5, COMPILATION = 6, INTERNAL_ERROR = 11 };

struct Program {
  std::string source, file, cubin, ptx, log;
  std::vector<std::string> headers, header_names;
};
std::map<void*, std::unique_ptr<Program>> programs;

struct Entry { std::string name; std::size_t shared_bytes; };

// The bytes of `__shared__ float name[64];` and the like between two places of a source.
std::size_t shared_between(const std::string& source, std::size_t at, std::size_t end) {
  static const std::string MARK = "__shared__ ";
  std::size_t sum = 0;
  for (at = source.find(MARK, at); at < end; at = source.find(MARK, at + 1)) {
    std::size_t type = at + MARK.size();
    std::size_t open = source.find_first_of("[;", type);
    bool is_dynamic = at >= 7 && source.compare(at - 7, 7, "extern ") == 0;
    if (is_dynamic || open == std::string::npos || source[open] == ';') continue;
    std::size_t element = source.compare(type, 6, "double") == 0 ? 8 : 4;
    sum += element * std::strtoul(source.c_str() + open + 1, nullptr, 10);
  }
  return sum;
}

std::vector<Entry> entries_of(const std::string& source) {
  static const std::string MARK = "extern \"C\" __global__ void ";
  std::vector<Entry> entries;
  for (std::size_t at = source.find(MARK); at != std::string::npos;) {
    std::size_t start = at + MARK.size(), next = source.find(MARK, start);
    // `__launch_bounds__(...)` may stand before the name.
    if (source.compare(start, 17, "__launch_bounds__") == 0) start = source.find(')', start) + 1;
    start = source.find_first_not_of(" \n", start);
    std::string name = source.substr(start, source.find('(', start) - start);
    entries.push_back({name, shared_between(source, start, std::min(next, source.size()))});
    at = next;
  }
  return entries;
}

std::string wrong_with(const Program& program) {
  const std::string& source = program.source;
  std::size_t error = source.find("#error");
  if (error != std::string::npos) {
    auto line = 1 + std::count(source.begin(), source.begin() + static_cast<long>(error), '\n');
    return program.file + '(' + std::to_string(line) + "): error: " + source.substr(error, source.find('\n', error) - error);
  }
  if (std::count(source.begin(), source.end(), '{') != std::count(source.begin(), source.end(), '}'))
    return program.file + ": error: expected a \"}\"";
  return {};
}

// NVIDIA's NVRTC, as far as it is called.
struct RealCompiler {
  int (*create)(void**, const char*, const char*, int, const char* const*, const char* const*);
  int (*destroy)(void**);
  int (*compile)(void*, int, const char* const*);
  int (*ptx_size)(void*, std::size_t*);
  int (*ptx)(void*, char*);
  int (*log_size)(void*, std::size_t*);
  int (*log)(void*, char*);
};
RealCompiler real;
bool has_real = false, assembles = true;
std::string kept_folder;

std::uint64_t hash_of(std::uint64_t hash, const std::string& text) {
  for (unsigned char byte : text + '\x1f') hash = (hash ^ byte) * 0x100000001B3ull;
  return hash;
}

// That of a file for 64-bit, little-endian, executable, without tables.
std::string elf_header() {
  std::string header("\x7f" "ELF\x02\x01\x01", 7);
  header.resize(64, '\0');
  header[16] = 2;
  return header;
}

// Whether files of the machine may be compiled in: what they say is not in the name of what is kept.
bool reads_files(const Program& program, const std::vector<std::string>& options) {
  const std::string& text = program.source;
  for (std::size_t at = text.find("include"); at != std::string::npos; at = text.find("include", at + 1)) {
    std::size_t line = text.rfind('\n', at) + 1;
    if (text.find_first_of("#%", line) > at) continue;  // no directive
    std::size_t begin = text.find_first_of("\"<\n", at), end = text.find_first_of("\">\n", begin + 1);
    if (end == std::string::npos || text[begin] == '\n') return true;
    const std::vector<std::string>& given = program.header_names;
    if (std::find(given.begin(), given.end(), text.substr(begin + 1, end - begin - 1)) == given.end()) return true;
  }
  return std::any_of(options.begin(), options.end(), [](const std::string& option) {
    return option.compare(0, 2, "-I") == 0 || option.find("-include") != std::string::npos;
  });
}

std::string file_of(const Program& program, const std::vector<std::string>& options) {
  std::uint64_t hash = hash_of(0xCBF29CE484222325ull, program.source);
  hash = hash_of(hash, program.file);
  for (const std::string& header : program.headers) hash = hash_of(hash, header);
  for (const std::string& name : program.header_names) hash = hash_of(hash, name);
  for (const std::string& option : options) hash = hash_of(hash, option);
  char name[32];
  std::snprintf(name, sizeof name, "/%016llx.ptx", static_cast<unsigned long long>(hash));
  return kept_folder + name;
}

bool read_whole(const std::string& path, std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return false;
  char part[65536];
  for (std::size_t n; (n = std::fread(part, 1, sizeof part, file)) > 0;) text.append(part, n);
  std::fclose(file);
  return !text.empty();
}

bool is_machine(const std::string& arch) { return arch.compare(0, 3, "sm_") == 0; }

// Other processes may write the same file; each has a name of its own until it is whole.
void keep(const std::string& path, const std::string& text) {
  std::string temporary = path + '.' + std::to_string(getpid());
  std::FILE* file = std::fopen(temporary.c_str(), "wb");
  if (file == nullptr) return;
  bool is_whole = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !is_whole || std::rename(temporary.c_str(), path.c_str()) != 0) std::remove(temporary.c_str());
}

// What the assembler says of registers, "Compiling entry function 'name' for …" and "Used 40 registers", in
// comments as `// registers name 40`.
std::string registers_in(const std::string& log) {
  static const std::string ENTRY = "Compiling entry function '", USED = "Used ";
  std::string comments;
  for (std::size_t at = log.find(ENTRY); at != std::string::npos; at = log.find(ENTRY, at)) {
    at += ENTRY.size();
    std::string name = log.substr(at, log.find('\'', at) - at);
    std::size_t used = log.find(USED, at);
    if (used != std::string::npos) comments += "// registers " + name + ' ' + std::to_string(std::atoi(log.c_str() + used + USED.size())) + '\n';
  }
  return comments;
}

// To PTX for this architecture, such as compute_121a, or by way of its machine code, as sm_121a; the
// compiler's code.
int compile_really(Program& program, const std::string& arch, std::vector<std::string> options) {
  options.push_back("--gpu-architecture=" + arch);
  options.push_back("--generate-line-info");
  if (is_machine(arch)) options.push_back("--ptxas-options=-v");
  std::string path = file_of(program, options);
  bool is_kept = !reads_files(program, options);
  if (is_kept && read_whole(path, program.ptx)) return SUCCESS;
  auto pointers = [](const std::vector<std::string>& texts) {
    std::vector<const char*> all;
    for (const std::string& text : texts) all.push_back(text.c_str());
    return all;
  };
  std::vector<const char*> headers = pointers(program.headers), names = pointers(program.header_names);
  void* handle = nullptr;
  int code = real.create(&handle, program.source.c_str(), program.file.c_str(), static_cast<int>(headers.size()),
                         headers.data(), names.data());
  if (code != 0) return code;
  std::vector<const char*> words = pointers(options);
  code = real.compile(handle, static_cast<int>(words.size()), words.data());
  std::size_t n = 0;
  if (real.log_size(handle, &n) == 0 && n > 1) {
    program.log.resize(n);
    real.log(handle, program.log.data());
    program.log.resize(n - 1);
  }
  if (code == 0 && (code = real.ptx_size(handle, &n)) == 0) {
    program.ptx.resize(n);
    code = real.ptx(handle, program.ptx.data());
    program.ptx.resize(n - 1);
    program.ptx += registers_in(program.log);
    program.log.clear();
  }
  real.destroy(&handle);
  if (code == 0 && is_kept) keep(path, program.ptx);
  return code;
}

}  // namespace

// Takes NVIDIA's NVRTC at this path from now on, with its assembler or without; PTX is kept in the folder. 0
// if it cannot be had.
extern "C" __attribute__((visibility("default"))) int stand_in_use_compiler(const char* path, const char* folder,
                                                                            int with_assembler) {
  std::lock_guard<std::mutex> guard(lock);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 0;
  auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    return function != nullptr;
  };
  has_real = find("nvrtcCreateProgram", real.create) && find("nvrtcDestroyProgram", real.destroy) &&
             find("nvrtcCompileProgram", real.compile) && find("nvrtcGetPTXSize", real.ptx_size) &&
             find("nvrtcGetPTX", real.ptx) && find("nvrtcGetProgramLogSize", real.log_size) &&
             find("nvrtcGetProgramLog", real.log);
  kept_folder = folder;
  assembles = with_assembler != 0;
  return has_real;
}

#define API extern "C" __attribute__((visibility("default"))) int
// A fault of any number is an internal error here: NVRTC's numbers end at 12, and cudarc's
// enumeration has no place for others.
#define ENTER(name)                                  \
  std::lock_guard<std::mutex> guard(lock);           \
  if (enter(#name) != 0) return INTERNAL_ERROR
#define PROGRAM(handle)                              \
  auto found = programs.find(handle);                \
  if (found == programs.end()) return INVALID_PROGRAM; \
  Program& program = *found->second

API nvrtcVersion(int* major, int* minor) { ENTER(nvrtcVersion); *major = 13; *minor = 0; return SUCCESS; }

API nvrtcCreateProgram(void** handle, const char* source, const char* name, int n_headers, const char* const* headers,
                       const char* const* header_names) {
  ENTER(nvrtcCreateProgram);
  auto program = std::make_unique<Program>();
  program->source = source;
  program->file = name;
  for (int idx = 0; idx < n_headers; ++idx) {
    program->headers.push_back(headers[idx]);
    program->header_names.push_back(header_names[idx]);
  }
  *handle = program.get();
  programs[*handle] = std::move(program);
  return SUCCESS;
}
API nvrtcDestroyProgram(void** handle) {
  std::lock_guard<std::mutex> guard(lock);
  int told = enter("nvrtcDestroyProgram") != 0 ? INTERNAL_ERROR : SUCCESS;
  if (programs.erase(*handle) == 0) { violation("a program destroyed twice"); return INVALID_PROGRAM; }
  *handle = nullptr;
  return told;
}
API nvrtcCompileProgram(void* handle, int n_options, const char* const* options) {
  static const std::string ARCH = "--gpu-architecture=";
  std::string arch, others;
  std::vector<std::string> rest;
  for (int idx = 0; idx < n_options; ++idx) {
    std::string option = options[idx];
    if (option.compare(0, ARCH.size(), ARCH) == 0) {
      arch = option.substr(ARCH.size());
    } else {
      others += ' ' + option;
      rest.push_back(option);
    }
  }
  std::unique_lock<std::mutex> guard(lock);
  if (enter("nvrtcCompileProgram", arch + others) != 0) return INTERNAL_ERROR;
  PROGRAM(handle);
  if (has_real) {
    // The compiler looks for a GPU itself, and other threads may go on meanwhile.
    guard.unlock();
    NoDevice hidden;
    bool is_ptx_alone = is_machine(arch) && !assembles;
    int code = compile_really(program, is_ptx_alone ? "compute_" + arch.substr(3) : arch, rest);
    if (code != 0 || !is_machine(arch)) return code;
    program.cubin = elf_header() + "spark stand-in cubin\n" + arch + '\n' + others +
                    "\nptx\n" + program.ptx;
    program.ptx.clear();
    return SUCCESS;
  }
  program.log = wrong_with(program);
  if (!program.log.empty()) return COMPILATION;
  if (is_machine(arch)) {
    program.cubin = elf_header() + "spark stand-in cubin\n" + arch + '\n' + others + '\n';
    for (const Entry& entry : entries_of(program.source)) program.cubin += entry.name + ' ' + std::to_string(entry.shared_bytes) + '\n';
  } else if (arch.compare(0, 8, "compute_") == 0) {
    program.ptx = ".version 8.4\n.target sm_" + arch.substr(8) + '\n';
    for (const Entry& entry : entries_of(program.source)) program.ptx += ".visible .entry " + entry.name + "()\n";
  } else {
    return INVALID_OPTION;
  }
  return SUCCESS;
}
API nvrtcGetNumSupportedArchs(int* n) { ENTER(nvrtcGetNumSupportedArchs); *n = 12; return SUCCESS; }
API nvrtcGetSupportedArchs(int* archs) {
  ENTER(nvrtcGetSupportedArchs);
  static const int ALL[] = {75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121};  // of NVRTC 13.0
  std::memcpy(archs, ALL, sizeof ALL);
  return SUCCESS;
}
// Sizes count the closing NUL.
API nvrtcGetCUBINSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetCUBINSize);
  PROGRAM(handle);
  *n_bytes = program.cubin.empty() ? 0 : program.cubin.size() + 1;
  return SUCCESS;
}
API nvrtcGetCUBIN(void* handle, char* bytes) {
  ENTER(nvrtcGetCUBIN);
  PROGRAM(handle);
  std::memcpy(bytes, program.cubin.c_str(), program.cubin.size() + 1);
  return SUCCESS;
}
API nvrtcGetPTXSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetPTXSize);
  PROGRAM(handle);
  *n_bytes = program.ptx.size() + 1;
  return SUCCESS;
}
API nvrtcGetPTX(void* handle, char* text) {
  ENTER(nvrtcGetPTX);
  PROGRAM(handle);
  std::memcpy(text, program.ptx.c_str(), program.ptx.size() + 1);
  return SUCCESS;
}
API nvrtcGetProgramLogSize(void* handle, std::size_t* n_bytes) {
  ENTER(nvrtcGetProgramLogSize);
  PROGRAM(handle);
  *n_bytes = program.log.size() + 1;
  return SUCCESS;
}
API nvrtcGetProgramLog(void* handle, char* text) {
  ENTER(nvrtcGetProgramLog);
  PROGRAM(handle);
  std::memcpy(text, program.log.c_str(), program.log.size() + 1);
  return SUCCESS;
}

extern "C" __attribute__((visibility("default"))) std::size_t stand_in_live_programs() {
  std::lock_guard<std::mutex> guard(lock);
  return programs.size();
}
