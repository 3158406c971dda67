#pragma once

#include <memory>

namespace heed {

namespace detail {

/// Calls destroy(object) when this thread ends; on the main thread never, as the process ends then.
void destroy_with_thread(void* object, void (*destroy)(void*));

}  // namespace detail

/// An object for each thread, made by its first get(), for `thread_local PerThread<T> name;`. A
/// thread_local object with a destructor of its own would end the process where there is no memory
/// to register that destructor; this throws std::bad_alloc.
template <class T>
class PerThread {
 public:
  T& get() {
    if (object_ == nullptr) [[unlikely]] {
      auto made = std::make_unique<T>();
      detail::destroy_with_thread(made.get(), [](void* object) { delete static_cast<T*>(object); });
      object_ = made.release();
    }
    return *object_;
  }

 private:
  T* object_ = nullptr;
};

}  // namespace heed
