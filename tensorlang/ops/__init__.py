"""``ops``: ready-made operators, plain functions from ``te`` tensors to ``te`` tensors, in numpy's and
torch's words.

Each declares what to compute, in stages that a schedule can fuse, and nothing of how: ``tl.compile([x,
ops.softmax(x)])`` gives a kernel with the default schedule. Sizes may be symbolic wherever the meaning
allows. ``tags`` lists the tags by which recipes find operators. Dtypes follow numpy's promotion (Python
numbers take the type of the tensor); float16 and bfloat16 are computed in float32 and rounded once at the
end. Knows ``te`` and below; no schedules.
"""

from __future__ import annotations

from ..entries import close
from ..errors import DeclareError
from . import tags
from .activation import *
from .attention import *
from .attention_cached import *
from .bits import *
from .blocks import *
from .compare import *
from .conv import *
from .conv_transpose import *
from .deform import *
from .einsum import *
from .elementwise import *
from .fourier import *
from .grid_sample import *
from .grouped import *
from .index import *
from .join import *
from .linear import *
from .linear_solve import *
from .loss import *
from .matmul import *
from .norm import *
from .norm_local import *
from .order import *
from .pool import *
from .pool_more import *
from .quantize import *
from .recurrent import *
from .reduce import *
from .resample import *
from .resize import *
from .scan import *
from .scan_extreme import *
from .shape import *
from .softmax import *
from .special import *
from .take import *
from .triangle import *
from .trigonometry import *
from .winograd import *

# what the files list, each in its own __all__
__all__ = ["tags", *(name for name, f in vars().items() if getattr(f, "__module__", "").startswith(__name__))]

close(__name__, "ops", DeclareError, flags=True)
