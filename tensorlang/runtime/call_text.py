"""The native entry of all kernels as LLVM text: one function for the process, told by a descriptor what to
check. Knows no Python.

``ptr entry(ptr self, ptr args, i64 nargs)`` is a METH_FASTCALL function. It reads the array objects directly,
checks them against the descriptor, binds dims and runs the kernel. Whatever it does not know exactly it
hands, untouched, to the portable callable.

The descriptor is an array of i64 words: a head, a record for each parameter, three words for each dim, and
the terms of the work that depends on sizes (see the names below and ``call.describe``). The interpreter's
lock is given up for calls that touch many bytes or do much work.
"""

from __future__ import annotations

# Words of the head.
KERNEL, PORTABLE, FAIL, PARAMS, DIMS, RELEASE, NDARRAY, NONE, TERMS, RELEASE_WORK, HEAD = range(11)
# Words of a parameter's record. Buffers: expected descr, number of axes, flags, item size, whether strides
# are declared; then (tag, value) for each axis, and, if so, as many for the strides in elements. Scalars:
# expected type, slot, smallest and largest value.
KIND, TYPE, NDIM, FLAGS, ITEMSIZE, STRIDED, SIZE, RECORD = range(8)
SLOT, LO, HI = NDIM, FLAGS, ITEMSIZE
INPUT, OUTPUT, FLOAT, INT = range(4)
CONSTANT, DIM = range(2)
MAX_BUFFERS, MAX_SLOTS = 16, 32

# Byte offsets in CPython's and numpy's structures; ``call.layout_holds`` compares them with this interpreter.
TYPE_AT, TUPLE_ITEMS, BYTES_DATA, FLOAT_VALUE = 8, 24, 32, 16
DATA, ND, SHAPE, STRIDES, DESCR, ARRAY_FLAGS = 16, 24, 32, 40, 56, 64
UNBOUND = -(1 << 63)  # a dim no array has told yet

IMPORTS = (
    "PyObject_Vectorcall",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLong",
    "Py_IncRef",
    "Py_DecRef",
)


def text() -> str:
    """The module's text."""
    out = _TEXT
    for name, value in {**globals()}.items():
        if isinstance(value, int) and name.isupper():
            out = out.replace(f"@@{name}@@", str(value)).replace(f"@@8*{name}@@", str(8 * value))
    return out


_TEXT = """
declare ptr @PyObject_Vectorcall(ptr, ptr, i64, ptr)
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLong(i64)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @llvm.abs.i64(i64, i1)
declare i64 @llvm.cttz.i64(i64, i1)

define ptr @tensorlang_entry(ptr %self, ptr %args, i64 %nargs) {
entry:
  %buffers = alloca [@@MAX_BUFFERS@@ x ptr], align 16
  %starts = alloca [@@MAX_BUFFERS@@ x i64], align 16
  %ends = alloca [@@MAX_BUFFERS@@ x i64], align 16
  %kinds = alloca [@@MAX_BUFFERS@@ x i64], align 16
  %scalars = alloca [@@MAX_SLOTS@@ x i64], align 16
  %overflow = alloca i32, align 4
  %status_object = alloca ptr, align 8
  %pitem = getelementptr i8, ptr %self, i64 @@TUPLE_ITEMS@@
  %bytes = load ptr, ptr %pitem
  %d = getelementptr i8, ptr %bytes, i64 @@BYTES_DATA@@
  %pnparams = getelementptr i8, ptr %d, i64 @@8*PARAMS@@
  %nparams = load i64, ptr %pnparams
  %pndims = getelementptr i8, ptr %d, i64 @@8*DIMS@@
  %ndims = load i64, ptr %pndims
  %pndarray = getelementptr i8, ptr %d, i64 @@8*NDARRAY@@
  %ndarray = load ptr, ptr %pndarray
  %counted = icmp eq i64 %nargs, %nparams
  br i1 %counted, label %clear, label %portable

clear:
  %z = phi i64 [0, %entry], [%z1, %clearone]
  %cleared = icmp eq i64 %z, %ndims
  br i1 %cleared, label %first, label %clearone
clearone:
  %pz = getelementptr i64, ptr %scalars, i64 %z
  store i64 @@UNBOUND@@, ptr %pz
  %z1 = add i64 %z, 1
  br label %clear
first:
  %records = getelementptr i8, ptr %d, i64 @@8*HEAD@@
  br label %param

param:
  %p = phi i64 [0, %first], [%p1, %next]
  %r = phi ptr [%records, %first], [%r1, %next]
  %nb = phi i64 [0, %first], [%nb1, %next]
  %total = phi i64 [0, %first], [%total1, %next]
  %allparams = icmp eq i64 %p, %nparams
  br i1 %allparams, label %dims, label %one
one:
  %parg = getelementptr ptr, ptr %args, i64 %p
  %arg = load ptr, ptr %parg
  %pargtype = getelementptr i8, ptr %arg, i64 @@TYPE_AT@@
  %argtype = load ptr, ptr %pargtype
  %pexpected = getelementptr i8, ptr %r, i64 @@8*TYPE@@
  %expected = load ptr, ptr %pexpected
  %kind = load i64, ptr %r
  %isbuffer = icmp ule i64 %kind, @@OUTPUT@@
  br i1 %isbuffer, label %buffer, label %scalar

buffer:
  %isarray = icmp eq ptr %argtype, %ndarray
  br i1 %isarray, label %array, label %portable
array:
  %pdescr = getelementptr i8, ptr %arg, i64 @@DESCR@@
  %descr = load ptr, ptr %pdescr
  %pnd = getelementptr i8, ptr %arg, i64 @@ND@@
  %nd32 = load i32, ptr %pnd
  %nd = sext i32 %nd32 to i64
  %paflags = getelementptr i8, ptr %arg, i64 @@ARRAY_FLAGS@@
  %aflags32 = load i32, ptr %paflags
  %aflags = zext i32 %aflags32 to i64
  %pwantnd = getelementptr i8, ptr %r, i64 @@8*NDIM@@
  %wantnd = load i64, ptr %pwantnd
  %pwantflags = getelementptr i8, ptr %r, i64 @@8*FLAGS@@
  %wantflags = load i64, ptr %pwantflags
  %hasflags = and i64 %aflags, %wantflags
  %okdescr = icmp eq ptr %descr, %expected
  %oknd = icmp eq i64 %nd, %wantnd
  %okflags = icmp eq i64 %hasflags, %wantflags
  %ok1 = and i1 %okdescr, %oknd
  %ok2 = and i1 %ok1, %okflags
  br i1 %ok2, label %shape, label %portable
shape:
  %pshape = getelementptr i8, ptr %arg, i64 @@SHAPE@@
  %dimsof = load ptr, ptr %pshape
  %axes = getelementptr i8, ptr %r, i64 @@8*RECORD@@
  br label %axis
axis:
  %x = phi i64 [0, %shape], [%x1, %axisok]
  %count = phi i64 [1, %shape], [%count1, %axisok]
  %allaxes = icmp eq i64 %x, %nd
  br i1 %allaxes, label %data, label %oneaxis
oneaxis:
  %pn = getelementptr i64, ptr %dimsof, i64 %x
  %n = load i64, ptr %pn
  %x2 = shl i64 %x, 1
  %ptag = getelementptr i64, ptr %axes, i64 %x2
  %tag = load i64, ptr %ptag
  %pvalue = getelementptr i64, ptr %ptag, i64 1
  %value = load i64, ptr %pvalue
  %isdim = icmp eq i64 %tag, @@DIM@@
  br i1 %isdim, label %dim, label %constant
constant:
  %same = icmp eq i64 %n, %value
  br i1 %same, label %axisok, label %portable
dim:
  %pslot = getelementptr i64, ptr %scalars, i64 %value
  %bound = load i64, ptr %pslot
  %unbound = icmp eq i64 %bound, @@UNBOUND@@
  br i1 %unbound, label %bind, label %compare
bind:
  store i64 %n, ptr %pslot
  br label %axisok
compare:
  %agrees = icmp eq i64 %n, %bound
  br i1 %agrees, label %axisok, label %portable
axisok:
  %x1 = add i64 %x, 1
  %count1 = mul i64 %count, %n
  br label %axis
data:
  %pdata = getelementptr i8, ptr %arg, i64 @@DATA@@
  %start = load i64, ptr %pdata
  %pointer = load ptr, ptr %pdata
  %pitemsize = getelementptr i8, ptr %r, i64 @@8*ITEMSIZE@@
  %itemsize = load i64, ptr %pitemsize
  %nbytes = mul i64 %count, %itemsize
  %end = add i64 %start, %nbytes
  %pstrided = getelementptr i8, ptr %r, i64 @@8*STRIDED@@
  %strided = load i64, ptr %pstrided
  %compact = icmp eq i64 %strided, 0
  br i1 %compact, label %place, label %lies

lies:
  ; from the last axis to the first: the strides, the bytes the array lies in, and whether each steps
  ; over all that later ones reach
  %some = icmp ne i64 %count, 0
  %bits = call i64 @llvm.cttz.i64(i64 %itemsize, i1 true)
  %part = sub i64 %itemsize, 1
  %pstrides = getelementptr i8, ptr %arg, i64 @@STRIDES@@
  %stridesof = load ptr, ptr %pstrides
  %steps = getelementptr {i64, i64}, ptr %axes, i64 %nd
  br i1 %some, label %lie, label %portable
lie:
  %y = phi i64 [%nd, %lies], [%y1, %lieok]
  %low = phi i64 [0, %lies], [%low1, %lieok]
  %high = phi i64 [%itemsize, %lies], [%high1, %lieok]
  %reach = phi i64 [%itemsize, %lies], [%reach1, %lieok]
  %nested = phi i1 [true, %lies], [%nested1, %lieok]
  %alllie = icmp eq i64 %y, 0
  br i1 %alllie, label %lain, label %onelie
onelie:
  %y1 = sub i64 %y, 1
  %pstride = getelementptr i64, ptr %stridesof, i64 %y1
  %stride = load i64, ptr %pstride
  %pm = getelementptr i64, ptr %dimsof, i64 %y1
  %m = load i64, ptr %pm
  %m1 = sub i64 %m, 1
  %ext = mul i64 %m1, %stride
  %backwards = icmp slt i64 %ext, 0
  %down = select i1 %backwards, i64 %ext, i64 0
  %up = select i1 %backwards, i64 0, i64 %ext
  %low1 = add i64 %low, %down
  %high1 = add i64 %high, %up
  %step = call i64 @llvm.abs.i64(i64 %stride, i1 false)
  %over = icmp sge i64 %step, %reach
  %single = icmp eq i64 %m1, 0
  %fine = or i1 %over, %single
  %nested1 = and i1 %nested, %fine
  %aext = sub i64 %up, %down
  %reach1 = add i64 %reach, %aext
  %fraction = and i64 %stride, %part
  %whole = icmp eq i64 %fraction, 0
  %elements = ashr i64 %stride, %bits
  %pltag = getelementptr {i64, i64}, ptr %steps, i64 %y1
  %ltag = load i64, ptr %pltag
  %plvalue = getelementptr i64, ptr %pltag, i64 1
  %lvalue = load i64, ptr %plvalue
  br i1 %whole, label %told, label %portable
told:
  %lisdim = icmp eq i64 %ltag, @@DIM@@
  br i1 %lisdim, label %ldim, label %lconstant
lconstant:
  %lsame = icmp eq i64 %elements, %lvalue
  br i1 %lsame, label %lieok, label %portable
ldim:
  %plslot = getelementptr i64, ptr %scalars, i64 %lvalue
  %lbound = load i64, ptr %plslot
  %lunbound = icmp eq i64 %lbound, @@UNBOUND@@
  br i1 %lunbound, label %lbind, label %lcompare
lbind:
  store i64 %elements, ptr %plslot
  br label %lieok
lcompare:
  %lagrees = icmp eq i64 %elements, %lbound
  br i1 %lagrees, label %lieok, label %portable
lieok:
  br label %lie
lain:
  %lowest = add i64 %start, %low
  %highest = add i64 %start, %high
  %read = icmp ne i64 %kind, @@OUTPUT@@
  %lainok = or i1 %read, %nested
  br i1 %lainok, label %place, label %portable

place:
  %from = phi i64 [%start, %data], [%lowest, %lain]
  %to = phi i64 [%end, %data], [%highest, %lain]
  %pbuf = getelementptr ptr, ptr %buffers, i64 %nb
  %pstart = getelementptr i64, ptr %starts, i64 %nb
  %pend = getelementptr i64, ptr %ends, i64 %nb
  %pkind = getelementptr i64, ptr %kinds, i64 %nb
  store ptr %pointer, ptr %pbuf
  store i64 %from, ptr %pstart
  store i64 %to, ptr %pend
  store i64 %kind, ptr %pkind
  %nbuf = add i64 %nb, 1
  %totalb = add i64 %total, %nbytes
  br label %next

scalar:
  %oktype = icmp eq ptr %argtype, %expected
  br i1 %oktype, label %typed, label %portable
typed:
  %psslot = getelementptr i8, ptr %r, i64 @@8*SLOT@@
  %sslot = load i64, ptr %psslot
  %pscalar = getelementptr i64, ptr %scalars, i64 %sslot
  %isfloat = icmp eq i64 %kind, @@FLOAT@@
  br i1 %isfloat, label %float, label %int
float:
  %pfvalue = getelementptr i8, ptr %arg, i64 @@FLOAT_VALUE@@
  %fvalue = load i64, ptr %pfvalue
  store i64 %fvalue, ptr %pscalar
  br label %next
int:
  %ivalue = call i64 @PyLong_AsLongLongAndOverflow(ptr %arg, ptr %overflow)
  %o = load i32, ptr %overflow
  %plo = getelementptr i8, ptr %r, i64 @@8*LO@@
  %lo = load i64, ptr %plo
  %phi = getelementptr i8, ptr %r, i64 @@8*HI@@
  %hi = load i64, ptr %phi
  %fits = icmp eq i32 %o, 0
  %above = icmp sge i64 %ivalue, %lo
  %below = icmp sle i64 %ivalue, %hi
  %within = and i1 %above, %below
  %oki = and i1 %fits, %within
  br i1 %oki, label %intok, label %portable
intok:
  store i64 %ivalue, ptr %pscalar
  br label %next

next:
  %nb1 = phi i64 [%nbuf, %place], [%nb, %float], [%nb, %intok]
  %total1 = phi i64 [%totalb, %place], [%total, %float], [%total, %intok]
  %p1 = add i64 %p, 1
  %psize = getelementptr i8, ptr %r, i64 @@8*SIZE@@
  %size = load i64, ptr %psize
  %r1 = getelementptr i64, ptr %r, i64 %size
  br label %param

dims:
  ; r is now past the last record: lo, hi, multiple of each dim
  %q = phi i64 [0, %param], [%q1, %dimok]
  %alldims = icmp eq i64 %q, %ndims
  br i1 %alldims, label %overlap, label %onedim
onedim:
  %q3 = mul i64 %q, 3
  %pdlo = getelementptr i64, ptr %r, i64 %q3
  %pdhi = getelementptr i64, ptr %pdlo, i64 1
  %pdmul = getelementptr i64, ptr %pdlo, i64 2
  %dlo = load i64, ptr %pdlo
  %dhi = load i64, ptr %pdhi
  %dmul = load i64, ptr %pdmul
  %pdv = getelementptr i64, ptr %scalars, i64 %q
  %dv = load i64, ptr %pdv
  %dabove = icmp sge i64 %dv, %dlo
  %dbelow = icmp sle i64 %dv, %dhi
  %din = and i1 %dabove, %dbelow
  br i1 %din, label %multiple, label %portable
multiple:
  %plain = icmp eq i64 %dmul, 1
  br i1 %plain, label %dimok, label %divide
divide:
  %rest = srem i64 %dv, %dmul
  %even = icmp eq i64 %rest, 0
  br i1 %even, label %dimok, label %portable
dimok:
  %q1 = add i64 %q, 1
  br label %dims

overlap:
  %k = phi i64 [0, %dims], [%k1, %overlapnext]
  %allk = icmp eq i64 %k, %nb
  br i1 %allk, label %ready, label %onek
onek:
  %k1 = add i64 %k, 1
  %pkkind = getelementptr i64, ptr %kinds, i64 %k
  %kkind = load i64, ptr %pkkind
  %pks = getelementptr i64, ptr %starts, i64 %k
  %ks = load i64, ptr %pks
  %pke = getelementptr i64, ptr %ends, i64 %k
  %ke = load i64, ptr %pke
  %isout = icmp eq i64 %kkind, @@OUTPUT@@
  br i1 %isout, label %against, label %overlapnext
overlapnext:
  br label %overlap
against:
  %j = phi i64 [0, %onek], [%j1, %apart]
  %allj = icmp eq i64 %j, %nb
  br i1 %allj, label %overlapnext, label %onej
onej:
  %pjs = getelementptr i64, ptr %starts, i64 %j
  %js = load i64, ptr %pjs
  %pje = getelementptr i64, ptr %ends, i64 %j
  %je = load i64, ptr %pje
  %jbefore = icmp ult i64 %js, %ke
  %kbefore = icmp ult i64 %ks, %je
  %meet = and i1 %jbefore, %kbefore
  %other = icmp ne i64 %j, %k
  %clash = and i1 %meet, %other
  br i1 %clash, label %portable, label %apart
apart:
  %j1 = add i64 %j, 1
  br label %against

ready:
  %kernel = load ptr, ptr %d
  %prelease = getelementptr i8, ptr %d, i64 @@8*RELEASE@@
  %release = load i64, ptr %prelease
  %long = icmp sge i64 %total, %release
  br i1 %long, label %free, label %weigh
weigh:
  ; past the dims: for each term its factor, the number of slots, the slots
  %pterms = getelementptr i8, ptr %d, i64 @@8*TERMS@@
  %terms = load i64, ptr %pterms
  %pheavy = getelementptr i8, ptr %d, i64 @@8*RELEASE_WORK@@
  %heavy = load double, ptr %pheavy
  %dims3 = mul i64 %ndims, 3
  %pterm0 = getelementptr i64, ptr %r, i64 %dims3
  br label %term
term:
  %t = phi i64 [0, %weigh], [%t1, %added]
  %pterm = phi ptr [%pterm0, %weigh], [%pterm1, %added]
  %work = phi double [0.0, %weigh], [%work1, %added]
  %allterms = icmp eq i64 %t, %terms
  br i1 %allterms, label %weighed, label %oneterm
oneterm:
  %t1 = add i64 %t, 1
  %coefficient = load double, ptr %pterm
  %pfactors = getelementptr i64, ptr %pterm, i64 1
  %factors = load i64, ptr %pfactors
  %pfactor0 = getelementptr i64, ptr %pterm, i64 2
  %pterm1 = getelementptr i64, ptr %pfactor0, i64 %factors
  br label %factor
factor:
  %g = phi i64 [0, %oneterm], [%g1, %onefactor]
  %product = phi double [%coefficient, %oneterm], [%product1, %onefactor]
  %allfactors = icmp eq i64 %g, %factors
  br i1 %allfactors, label %added, label %onefactor
onefactor:
  %pg = getelementptr i64, ptr %pfactor0, i64 %g
  %gslot = load i64, ptr %pg
  %pgvalue = getelementptr i64, ptr %scalars, i64 %gslot
  %gvalue = load i64, ptr %pgvalue
  %gdouble = sitofp i64 %gvalue to double
  %product1 = fmul double %product, %gdouble
  %g1 = add i64 %g, 1
  br label %factor
added:
  %work1 = fadd double %work, %product
  br label %term
weighed:
  %much = fcmp oge double %work, %heavy
  br i1 %much, label %free, label %held
held:
  %status1 = call i32 %kernel(ptr %buffers, ptr %scalars)
  br label %ran
free:
  %thread = call ptr @PyEval_SaveThread()
  %status2 = call i32 %kernel(ptr %buffers, ptr %scalars)
  call void @PyEval_RestoreThread(ptr %thread)
  br label %ran
ran:
  %status = phi i32 [%status1, %held], [%status2, %free]
  %well = icmp eq i32 %status, 0
  br i1 %well, label %done, label %failed
done:
  %pnone = getelementptr i8, ptr %d, i64 @@8*NONE@@
  %none = load ptr, ptr %pnone
  call void @Py_IncRef(ptr %none)
  ret ptr %none
failed:
  %wide = sext i32 %status to i64
  %number = call ptr @PyLong_FromLong(i64 %wide)
  %nonumber = icmp eq ptr %number, null
  br i1 %nonumber, label %error, label %raise
error:
  ret ptr null
raise:
  store ptr %number, ptr %status_object
  %pfail = getelementptr i8, ptr %d, i64 @@8*FAIL@@
  %fail = load ptr, ptr %pfail
  %raised = call ptr @PyObject_Vectorcall(ptr %fail, ptr %status_object, i64 1, ptr null)
  call void @Py_DecRef(ptr %number)
  ret ptr %raised

portable:
  %pportable = getelementptr i8, ptr %d, i64 @@8*PORTABLE@@
  %slow = load ptr, ptr %pportable
  %result = call ptr @PyObject_Vectorcall(ptr %slow, ptr %args, i64 %nargs, ptr null)
  ret ptr %result
}
"""
