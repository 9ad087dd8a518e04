"""Who sees what of webhooks."""

from __future__ import annotations


def test_only_an_admin_sees_where_a_webhook_goes(dashboard):
    sources = dashboard.app.state.sources
    secret = sources.alerts.add_webhook("https://hooks.example.org/services/T0/B0/s3cret?token=t0ken", 0).secret
    operator, admin = dashboard.browser("operator"), dashboard.browser("admin")
    for address in ("/audit", "/audit/webhooks"):
        page = operator.get(address).text
        assert "hooks.example.org" in page
        assert "s3cret" not in page
        assert "t0ken" not in page
        assert "s3cret" in admin.get(address).text
    assert operator.get("/v1/api/webhooks").status_code == 403
    assert secret not in admin.get("/v1/api/webhooks").text + admin.get("/audit").text
