#include "support/data.h"
#include "support/tolerance.h"
