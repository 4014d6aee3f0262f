"""A channel that posts signed JSON to a receiver of the tenant's, as the Standard Webhooks say."""
