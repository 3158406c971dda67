#include "support/budget.h"

namespace heed::test {

bool counted() {
#if defined(HEED_COVERAGE)
  return true;
#else
  return false;
#endif
}

}  // namespace heed::test
