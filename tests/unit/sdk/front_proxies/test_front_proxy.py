"""What a proxy before the gateways is to do."""

from __future__ import annotations

import pytest

from sokovan.sdk.errors import InvalidSetting
from sokovan.sdk.front_proxies.front_proxy import Address, Gateway, NoGateway, address_of, front_proxy
from tests.unit.sdk.front_proxies.exports import export_of

PLAIN, OTHER = "http://10.0.0.3:7648", "http://10.0.0.4:7648"


def test_processes_of_one_proxy_are_one_gateway_and_one_without_a_url_is_none() -> None:
    front = front_proxy(export_of(PLAIN, PLAIN, "", OTHER))
    assert front.gateways == [Gateway(Address("10.0.0.3", 7648), False), Gateway(Address("10.0.0.4", 7648), False)]
    assert (front.listen, front.paths) == (Address("127.0.0.1", 8080), ("/v1", "/d"))


def test_a_gateway_of_one_machine_is_used_if_there_is_no_other() -> None:
    own = "http://127.0.0.1:7648"
    assert [one.address.text for one in front_proxy(export_of(own)).gateways] == ["127.0.0.1:7648"]
    assert [one.address.text for one in front_proxy(export_of(own, PLAIN)).gateways] == ["10.0.0.3:7648"]


def test_only_the_paths_of_named_routes_go_through() -> None:
    assert front_proxy(export_of(PLAIN), only_routes=True).paths == ["/d/qwen", "/d/d-1"]
    # A name that is no single part of a path is reached by the id.
    assert front_proxy(export_of(PLAIN, name="team/qwen"), only_routes=True).paths == ["/d/d-1"]


def test_without_a_gateway_nothing_can_be_written() -> None:
    with pytest.raises(NoGateway, match="no gateway is known"):
        front_proxy(export_of(""))


def test_gateways_with_and_without_tls_are_not_mixed() -> None:
    with pytest.raises(InvalidSetting, match=r"10\.0\.0\.3:7648 have not"):
        front_proxy(export_of(PLAIN, "https://10.0.0.4:7648"))


def test_other_machines_reach_it_with_tls_only() -> None:
    with pytest.raises(InvalidSetting, match="has no certificate"):
        front_proxy(export_of(PLAIN), listen="0.0.0.0:80")
    front = front_proxy(export_of(PLAIN), certificate="/etc/ssl/m.pem")
    assert (front.listen.text, front.certificate) == ("0.0.0.0:443", "/etc/ssl/m.pem")


@pytest.mark.parametrize("file", ["a b.pem", "a.pem\nbind :80", 'a".pem', "a'.pem", "a\\.pem", "a$b.pem"])
def test_a_file_name_cannot_add_to_the_configuration(file: str) -> None:
    refused = pytest.raises(InvalidSetting, match="has spaces, quotes")
    with refused:
        front_proxy(export_of(PLAIN), certificate=file)
    with refused:
        front_proxy(export_of(PLAIN), ca=file)
    with refused:
        front_proxy(export_of(PLAIN), certificate="m.pem", key=file)


def test_a_key_without_its_certificate_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="without its certificate"):
        front_proxy(export_of(PLAIN), key="k.pem")


def test_an_address_has_a_host_and_a_port() -> None:
    assert address_of("[::1]:443") == Address("::1", 443)
    assert address_of("[::1]:443").text == "[::1]:443"
    assert address_of("models.example:443").host == "models.example"
    for wrong in ("", ":443", "a", "a:", "a:0", "a:65536", "a:4_3", "::1:443", "[a]:443", "a b:443", "a:\u0664"):
        with pytest.raises(InvalidSetting, match="is not an address"):
            address_of(wrong)
