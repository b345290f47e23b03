"""Which chains of iptables-legacy drop what no rule accepts, by tables as a kernel (Linux 6.18) gave them."""

import base64
import zlib

import pytest

from lanloom.node.netlink.iptables import FORWARD, LOCAL_IN, IpChain, IpTable, dropping


def table(begins: tuple[int, ...], policies: tuple[int, ...], recorded: str) -> IpTable:
    """A table whose entries were compressed."""
    return IpTable(begins, policies, zlib.decompress(base64.b85decode(recorded)))


# The rules are as the option -S of the program shows them.
RECORDED = {
    # -P FORWARD DROP
    # -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
    # -A FORWARD -m physdev --physdev-is-bridged -j ACCEPT
    "physdev": (
        4,
        table(
            (0, 0, 152, 912, 0),
            (0, 0, 760, 912, 0),
            "c-muNpbaQsn8Cn=MO=e`zJLG!|7V~fuwYDJWWgeSf+0CSFR!F1F*zHXHfDxF2N;2vY0!o54WPrYg>ME!"
            "K}Kb9N@^LcEM^%T{s*Od7BbTPe>%8}V-V)Y0)`D(#T^)2gM$2naO%S^%fJ8tf3zjW",
        ),
        (IpChain(FORWARD, accepts_bridged=True),),
    ),
    # -P FORWARD DROP
    "policy": (
        6,
        table(
            (0, 0, 208, 416, 0),
            (0, 0, 208, 416, 0),
            "c-muN7(8GF!vzK=9C8{2^#1$*|3AYZ10esfkm;ZQgVaA9!zzAW;FNP<a19Fb55g&rUzULZ0JJd`#Q",
        ),
        (IpChain(FORWARD, accepts_bridged=False),),
    ),
    # -A INPUT -p tcp -j REJECT
    # -A INPUT -j DROP
    # -A FORWARD -i iso-br -o iso-br -j ACCEPT
    # -A FORWARD -j REJECT
    "last rule": (
        4,
        table(
            (0, 0, 456, 912, 0),
            (0, 304, 760, 912, 0),
            "c-muNpe|s8(gh4N7?`lgYcK@4dbv7>;L^{`KwE&@UHHL&AfUCo7|3wfKOFALEY8<WD#FeG4*@v&$nIjH"
            "qPwUWUMzz&eGS&|;uw_f+JIHufx$H>$Ug|DKK!x_3;+XZHq`",
        ),
        (
            IpChain(LOCAL_IN, accepts_bridged=False),
            IpChain(FORWARD, accepts_bridged=True),
        ),
    ),
    # -P INPUT DROP
    # -A FORWARD -i a -o b -j ACCEPT
    # -A FORWARD -m physdev --physdev-is-bridged -j DROP
    # -A FORWARD -m comment --comment hi -j DROP
    "condition": (
        6,
        table(
            (0, 0, 208, 1432, 0),
            (0, 0, 1224, 1432, 0),
            "c-muN7(8GF!vzK=9C8{2^!^6|YPca0jh}>J4}Lzne^|)$&p#^phnhfu(Si||e=-;fGAfHxQp;#%ISYN$"
            "0X4x1#t%5dO@T2vKQ}iuuLM`PW-^RuFcjl^xaE70e>jGfe_r5}b6{`{3i1!aDUV;4fdK#ze=*A",
        ),
        (IpChain(LOCAL_IN, accepts_bridged=False),),
    ),
    # -P FORWARD DROP
    # -A FORWARD -i docker0 ! -o docker0 -j ACCEPT
    # -A FORWARD -i docker0 -o docker0 -j ACCEPT
    # -A FORWARD -i iso ! -o iso -j ACCEPT
    "docker": (
        4,
        table(
            (0, 0, 152, 760, 0),
            (0, 0, 608, 760, 0),
            "c-muNpbaQsn8Cn=MO=e`zJLG!|HmetlAoNNT4aEe{~ro)@qvH|<}Q}O<t_$VxGS?bA1@!>4OrYnlklQu"
            "`Xa|&|LNc^jzJk-8?cHyFt`Q<`3K?DhhLU~0RS=sSfl",
        ),
        (IpChain(FORWARD, accepts_bridged=False),),
    ),
}


@pytest.mark.parametrize("rules", RECORDED)
def test_a_table(rules: str) -> None:
    """A chain drops by its policy or a last rule without a condition; rules within a bridge, but Docker's, are seen."""
    version, found, expected = RECORDED[rules]
    assert dropping(version, found) == expected
