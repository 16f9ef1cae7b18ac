// Frees the memory of a libtorch module at once, whoever else holds the module.
//
//   const stageload::ReleaseStats stats = stageload::Release(*text_encoder);
//
// module->to(torch::kCPU) frees nothing where CPU and GPU share one memory. Release leaves every
// parameter and buffer of the module and its submodules without elements, for all who hold a handle
// of it, so that the storages die; then the allocators give back what they cache. A module that was
// released has to be loaded anew: to call it is an error of libtorch's, about sizes.
//
// This header alone needs libtorch, and is not a part of libstageload: nothing is linked for it.
// The same for Python is docs/python.md.
//
// Threading: nobody may use the module meanwhile.
#ifndef STAGELOAD_TORCH_H_
#define STAGELOAD_TORCH_H_

#include <torch/nn/module.h>
#include <torch/version.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#if defined(TORCH_VERSION_MAJOR) && TORCH_VERSION_MAJOR >= 2
#include <ATen/detail/MPSHooksInterface.h>
#endif
#ifdef __APPLE__
#include <malloc/malloc.h>
#elif defined(__GLIBC__)
#include <malloc.h>
#endif

namespace stageload {

// Bytes of storages, each counted once.
struct ReleaseStats {
  std::int64_t nbytes = 0;  // freed
  std::int64_t kept = 0;    // left alone, since they are shared with ReleaseOptions::keep
  std::int64_t held = 0;    // not freed, since something else refers to them: a view, a graph
};

struct ReleaseOptions {
  // Tensors whose storages are left alone, also where the module shares them.
  std::vector<torch::Tensor> keep;
  // Have the allocators of MPS and of C give back what they cache. CUDA's is the caller's own.
  bool empty_cache = true;
};

namespace release_internal {

struct Storage {
  c10::weak_intrusive_ptr<c10::StorageImpl> weak;
  std::int64_t nbytes = 0;
};
using Storages = std::map<const void*, Storage>;

inline const void* KeyOf(const torch::Tensor& tensor) {
  return tensor.storage().unsafeGetStorageImpl();
}

inline void Add(const torch::Tensor& tensor, Storages& storages) {
  storages.try_emplace(KeyOf(tensor),
                       Storage{tensor.storage().getWeakStorageImpl(),
                               static_cast<std::int64_t>(tensor.storage().nbytes())});
}

inline std::int64_t Sum(const Storages& storages, bool alive_only) {
  std::int64_t sum = 0;
  for (const auto& [key, storage] : storages) {
    if (!alive_only || !storage.weak.expired()) sum += storage.nbytes;
  }
  return sum;
}

inline void CheckDense(const torch::OrderedDict<std::string, torch::Tensor>::Item& tensor) {
  TORCH_CHECK(!tensor.value().defined() || tensor.value().layout() == torch::kStrided,
              "stageload::Release: ", tensor.key(), " is ", tensor.value().layout(),
              " and would stay in memory; drop the module instead");
}

// One parameter or buffer. Every handle of it shares one TensorImpl, whose data goes.
inline void Strip(torch::Tensor tensor, const std::set<const void*>& keep, Storages& gone,
                  Storages& kept) {
  if (!tensor.defined() || !tensor.has_storage()) return;
  if (keep.count(KeyOf(tensor)) != 0) return Add(tensor, kept);
  Add(tensor, gone);
  if (tensor.grad().defined() && tensor.grad().has_storage()) {
    Add(tensor.grad(), gone);
    tensor.mutable_grad() = torch::Tensor();
  }
  tensor.set_data(torch::empty({0}, tensor.options().requires_grad(false)));
}

inline void EmptyCaches() {
#if defined(TORCH_VERSION_MAJOR) && TORCH_VERSION_MAJOR >= 2
  const auto& mps = at::detail::getMPSHooks();
  if (mps.hasMPS()) {
    mps.deviceSynchronize();
    mps.emptyCache();
  }
#endif
#ifdef __APPLE__
  malloc_zone_pressure_relief(nullptr, 0);
#elif defined(__GLIBC__)
  malloc_trim(0);  // which keeps what is freed below some 32 MiB
#endif
}

}  // namespace release_internal

// c10::Error, before anything is freed, where a parameter or buffer is not strided but sparse or of
// MKL-DNN: it has no storage of its own that could go.
inline ReleaseStats Release(torch::nn::Module& module, const ReleaseOptions& options = {}) {
  const torch::NoGradGuard no_grad;
  for (const auto& tensor : module.named_parameters()) release_internal::CheckDense(tensor);
  for (const auto& tensor : module.named_buffers()) release_internal::CheckDense(tensor);
  std::set<const void*> keep;
  for (const torch::Tensor& tensor : options.keep) keep.insert(release_internal::KeyOf(tensor));
  release_internal::Storages gone;
  release_internal::Storages kept;
  for (const auto& tensor : module.parameters()) {
    release_internal::Strip(tensor, keep, gone, kept);
  }
  for (const auto& tensor : module.buffers()) release_internal::Strip(tensor, keep, gone, kept);
  if (options.empty_cache) release_internal::EmptyCaches();
  ReleaseStats stats;
  stats.kept = release_internal::Sum(kept, false);
  stats.held = release_internal::Sum(gone, true);
  stats.nbytes = release_internal::Sum(gone, false) - stats.held;
  return stats;
}

}  // namespace stageload

#endif  // STAGELOAD_TORCH_H_
