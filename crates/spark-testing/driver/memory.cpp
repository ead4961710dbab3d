// Memory: allocated at once or in the order of a stream, copied, filled, moved.

#include <cstdlib>

#include "state.h"

using namespace stand_in;

constexpr unsigned char FRESH_BYTE = 0xCD;

static Result allocate(Kind kind, std::size_t n_bytes, Address* result) {
  if (n_bytes == 0) return INVALID_VALUE;
  Address used = 0;
  for (auto& [address, block] : blocks) used += block.n_bytes;
  if (allocation_fails()) return OUT_OF_MEMORY;
  if (n_bytes > total_bytes_of(persona()) - used) {
    run_everything();  // what streams will free is there for who waits
    used = 0;
    for (auto& [address, block] : blocks) used += block.n_bytes;
    if (n_bytes > total_bytes_of(persona()) - used) return OUT_OF_MEMORY;
  }
  Address address;
  if (kind == Kind::DEVICE) {
    address = take_device(n_bytes);
  } else {
    address = reinterpret_cast<Address>(std::aligned_alloc(PAGE, (n_bytes + PAGE - 1) / PAGE * PAGE));
    if (address != 0) std::memset(reinterpret_cast<void*>(address), FRESH_BYTE, n_bytes);
  }
  if (address == 0) return OUT_OF_MEMORY;
  blocks[address] = {n_bytes, kind};
  if (kind == Kind::MANAGED) share_block(address, n_bytes, false);
  *result = address;
  return SUCCESS;
}

static void erase(Address address) {
  Block block = blocks[address];
  blocks.erase(address);
  if (block.kind == Kind::MANAGED) share_block(address, block.n_bytes, true);
  if (block.kind == Kind::DEVICE) give_device(address, block.n_bytes);
  else std::free(reinterpret_cast<void*>(address));
}

static Result give_back(Address address, bool is_pinned) {
  auto found = blocks.find(address);
  if (found == blocks.end() || found->second.is_going || (found->second.kind == Kind::PINNED) != is_pinned) {
    violation("memory given back that was not allocated: " + hexadecimal(address));
    return INVALID_VALUE;
  }
  run_everything();  // the real driver waits too
  erase(address);
  return SUCCESS;
}

API cuMemAlloc_v2(Address* address, std::size_t n_bytes) {
  ENTER_CONTEXT(cuMemAlloc_v2, std::to_string(n_bytes));
  return allocate(Kind::DEVICE, n_bytes, address);
}
API cuMemAllocManaged(Address* address, std::size_t n_bytes, unsigned) {
  ENTER_CONTEXT(cuMemAllocManaged, std::to_string(n_bytes));
  return allocate(Kind::MANAGED, n_bytes, address);
}
API cuMemHostAlloc(void** pointer, std::size_t n_bytes, unsigned) {
  ENTER_CONTEXT(cuMemHostAlloc, std::to_string(n_bytes));
  Address address = 0;
  Result result = allocate(Kind::PINNED, n_bytes, &address);
  if (result == SUCCESS) *pointer = reinterpret_cast<void*>(address);
  return result;
}
API cuMemFree_v2(Address address) {
  ENTER_GIVING_BACK(cuMemFree_v2);
  Result result = give_back(address, false);
  return told != 0 ? told : result;
}
API cuMemFreeHost(void* pointer) {
  ENTER_GIVING_BACK(cuMemFreeHost);
  Result result = give_back(reinterpret_cast<Address>(pointer), true);
  return told != 0 ? told : result;
}

// --- in the order of a stream --------------------------------------------------------------

API cuMemAllocAsync(Address* address, std::size_t n_bytes, void* handle) {
  ENTER_CONTEXT(cuMemAllocAsync, std::to_string(n_bytes));
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (attribute(MEMORY_POOLS) == 0) return NOT_SUPPORTED;
  if ((*stream)->capture) return CAPTURE_UNSUPPORTED;
  Result result = allocate(Kind::DEVICE, n_bytes, address);
  if (result != SUCCESS) return result;
  Address made = *address;
  blocks[made].is_ready = false;
  submit(**stream, {[=] { blocks[made].is_ready = true; }});
  return SUCCESS;
}
API cuMemFreeAsync(Address address, void* handle) {
  ENTER_GIVING_BACK(cuMemFreeAsync);
  auto* stream = find(streams, handle);
  auto found = blocks.find(address);
  if (stream == nullptr) return INVALID_HANDLE;
  if (found == blocks.end() || found->second.is_going || found->second.kind != Kind::DEVICE) {
    violation("memory given back that was not allocated: " + hexadecimal(address));
    return INVALID_VALUE;
  }
  found->second.is_going = true;
  submit(**stream, {[=] { erase(address); }});
  return told;
}

// --- copies --------------------------------------------------------------------------------

static void copy_bytes(Address to, Address from, std::size_t n_bytes) {
  for (Address address : {to, from}) {
    if (!is_usable(address, n_bytes)) return fail(ILLEGAL_ADDRESS, "a copy ran on memory that is gone, or not there yet");
  }
  DeviceOpen open;
  std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n_bytes);
  note_written(to, n_bytes);
}

static Result copy(Address to, Address from, std::size_t n_bytes, void* handle, bool is_from_host, bool is_to_host) {
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if ((!is_to_host && !is_reachable(to, n_bytes)) || (!is_from_host && !is_reachable(from, n_bytes))) {
    violation("a copy of " + std::to_string(n_bytes) + " bytes outside the device's memory");
    return INVALID_VALUE;
  }
  bool is_pageable = block_of(to, n_bytes) == nullptr || block_of(from, n_bytes) == nullptr;
  if (is_pageable && (is_from_host || is_to_host)) {
    if ((*stream)->capture) return CAPTURE_UNSUPPORTED;
    run_all(**stream);
    if (sticky != 0) return sticky;
    DeviceOpen open;
    std::memcpy(reinterpret_cast<void*>(to), reinterpret_cast<void*>(from), n_bytes);
    note_written(to, n_bytes);
    return SUCCESS;
  }
  submit(**stream, {[=] { copy_bytes(to, from, n_bytes); }});
  return SUCCESS;
}

API cuMemcpyAsync(Address to, Address from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyAsync, std::to_string(n_bytes));
  return copy(to, from, n_bytes, stream, false, false);
}
API cuMemcpyHtoDAsync_v2(Address to, const void* from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyHtoDAsync_v2, std::to_string(n_bytes));
  return copy(to, reinterpret_cast<Address>(from), n_bytes, stream, true, false);
}
API cuMemcpyDtoHAsync_v2(void* to, Address from, std::size_t n_bytes, void* stream) {
  ENTER_CONTEXT(cuMemcpyDtoHAsync_v2, std::to_string(n_bytes));
  return copy(reinterpret_cast<Address>(to), from, n_bytes, stream, false, true);
}
API cuMemsetD8Async(Address to, unsigned char byte, std::size_t n_bytes, void* handle) {
  ENTER_CONTEXT(cuMemsetD8Async, std::to_string(n_bytes));
  auto* stream = find(streams, handle);
  if (stream == nullptr) return INVALID_HANDLE;
  if (!is_reachable(to, n_bytes)) return INVALID_VALUE;
  submit(**stream, {[=] {
    if (!is_usable(to, n_bytes)) return fail(ILLEGAL_ADDRESS, "a fill ran on memory that is gone, or not there yet");
    DeviceOpen open;
    std::memset(reinterpret_cast<void*>(to), byte, n_bytes);
    note_written(to, n_bytes);
  }});
  return SUCCESS;
}

struct Location { int type, id; };
#ifndef STAND_IN_OLD_DRIVER
static Result hint(Address address, std::size_t n_bytes, Location location) {
  const Block* block = block_of(address, n_bytes);
  if (block == nullptr || block->kind != Kind::MANAGED) return INVALID_VALUE;
  if (attribute(CONCURRENT_MANAGED_ACCESS) == 0) return INVALID_DEVICE;
  return location.type == 1 || location.type == 2 ? SUCCESS : INVALID_DEVICE;
}
API cuMemPrefetchAsync_v2(Address address, std::size_t n_bytes, Location location, unsigned, void* stream) {
  ENTER_CONTEXT(cuMemPrefetchAsync_v2, std::to_string(n_bytes));
  auto* queue = find(streams, stream);
  if (queue == nullptr) return INVALID_HANDLE;
  // No kind of node of a graph is a prefetch.
  return (*queue)->capture ? CAPTURE_UNSUPPORTED : hint(address, n_bytes, location);
}
API cuMemAdvise_v2(Address address, std::size_t n_bytes, int advice, Location location) {
  ENTER_CONTEXT(cuMemAdvise_v2, std::to_string(advice));
  return hint(address, n_bytes, location);
}
#endif
