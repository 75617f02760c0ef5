"""Pages carry the part of plotly.js that draws their traces, and a bundle of another make whole."""

from plotly.offline import get_plotlyjs

from steptime.report.plotly_part import USED, part_of

BUNDLE = (
    '"use strict";var P=(()=>{var Z=(a,b)=>()=>a;'
    "var Co=Z((e,t)=>{t.exports={register:r=>r,scatter:Sc()}});"
    'var Sc=Z((e,t)=>{t.exports={moduleType:"trace",name:"scatter"}});'
    'var Ba=Z((e,t)=>{t.exports={moduleType:"trace",name:"bar",calc:Sh()}});'
    'var Be=Z((e,t)=>{"use strict";t.exports=Ba()});'
    'var He=Z((e,t)=>{t.exports={moduleType:"trace",name:"heatmap",a:(Lz(),0)}});'
    'var Pi=Z((e,t)=>{t.exports={moduleType:"trace",name:"pie",calc:Un()}});'
    "var Sh=Z(e=>{e.shared=1});"
    "var Un=Z(e=>{e.unused=1});function alone(){}var Lx,Ly=Ez(()=>{Lx=1});"
    "var Ho=Z(e=>{e.holds=1});var Lv,Lz=Ez(()=>{Lv=1});"
    "var Ro=Z((e,t)=>{var k=Co();k.register([Be(),He(),Pi()]);t.exports=k});return Ro();})();"
)


def test_what_no_trace_in_use_needs_is_left_out() -> None:
    part = part_of(BUNDLE)
    for name in ("Co", "Sc", "Be", "Ba", "He", "Sh", "Ho", "Ro"):
        assert f"var {name}=Z(" in part
    for gone in ("pie", "unused", "alone", "Lx"):
        assert gone in BUNDLE
        assert gone not in part
    assert "k.register([Be(),He()])" in part
    assert part.startswith('"use strict";var P=(()=>{')
    assert part.endswith("return Ro();})();")


def test_a_bundle_of_another_make_comes_back_whole() -> None:
    for other in ("", "window.Plotly = {}", BUNDLE.replace('name:"bar"', 'name:"column"')):
        assert part_of(other) == other


def test_the_bundle_that_is_installed_is_cut_to_a_third() -> None:
    whole = get_plotlyjs()
    part = part_of(whole)
    assert len(part) < len(whole) / 3
    for kind in USED:
        assert f'moduleType:"trace",name:"{kind}"' in part
    assert "MIT license" in part[:500]
    assert "maplibre-gl-js" not in part.rpartition("return Plotly")[0].partition("/*! Bundled")[0]
