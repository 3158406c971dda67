#pragma once

// All of heed but the lessons (heed/lessons.h). A program that uses a part of it compiles faster
// with the headers of that part.

#include "heed/attention.h"
#include "heed/data.h"
#include "heed/generate.h"
#include "heed/inspect.h"
#include "heed/io.h"
#include "heed/models.h"
#include "heed/nn.h"
#include "heed/ops.h"
#include "heed/picture.h"
#include "heed/pipelines.h"
#include "heed/retrieval.h"
#include "heed/runtime.h"
#include "heed/serve.h"
#include "heed/tensor.h"
#include "heed/text.h"
#include "heed/train.h"
#include "heed/transformer.h"
#include "heed/version.h"
