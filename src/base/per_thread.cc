#include "base/per_thread.h"

#include <pthread.h>

#include <new>

namespace heed::detail {
namespace {

struct Kept {
  void* object;
  void (*destroy)(void*);
  Kept* next;
};

void destroy_all(void* first) {
  for (auto* kept = static_cast<Kept*>(first); kept != nullptr;) {
    const std::unique_ptr<Kept> owner(kept);
    kept = owner->next;
    owner->destroy(owner->object);
  }
}

/// One key for all objects: its value is the newest of the thread's list.
struct Key {
  Key() : made(pthread_key_create(&key, destroy_all) == 0) {}
  pthread_key_t key{};
  bool made;
};

}  // namespace

void destroy_with_thread(void* object, void (*destroy)(void*)) {
  static const Key key;
  if (!key.made) {
    throw std::bad_alloc();
  }
  auto kept = std::make_unique<Kept>(
      Kept{object, destroy, static_cast<Kept*>(pthread_getspecific(key.key))});
  if (pthread_setspecific(key.key, kept.get()) != 0) {
    throw std::bad_alloc();
  }
  static_cast<void>(kept.release());  // the key owns it now
}

}  // namespace heed::detail
